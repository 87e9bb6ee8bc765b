//! Frames of HTTP/2 (RFC 9113 section 4.1) out of the text of a row, right or wrong as it says. It knows no sockets.

use super::row::{Party, unescape};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The kinds of frames, each at its number.
const KINDS: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

/// The codes of errors, each at its number.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// The name of an error's code.
pub(crate) fn code_name(code: u32) -> String {
    CODES.get(code as usize).map_or_else(|| format!("code {code}"), |name| (*name).to_owned())
}

/// A frame's number by its name.
pub(crate) fn kind(name: &str) -> u8 {
    let known = KINDS.iter().position(|known| *known == name).map(|number| number as u8);
    known.unwrap_or_else(|| number(name) as u8)
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length of 24 bits").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The bytes of a row's lines, whose form `frames/README.md` explains.
pub(crate) fn bytes(text: &str, party: Party) -> Vec<u8> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        if let Some(times) = lines[at].strip_prefix("!repeat ") {
            let n_lines = lines[at..].iter().position(|line| *line == "!end").expect("a repetition's end");
            let (times, first) = times.split_once(' ').unwrap_or((times, "0"));
            for nth in (number(first)..).take(number(times) as usize) {
                bytes.extend(frames(&lines[at + 1..at + n_lines], nth, party));
            }
            at += n_lines + 1;
            continue;
        }
        let n_lines = lines[at..].iter().take_while(|line| !line.starts_with('!')).count();
        bytes.extend(frames(&lines[at..at + n_lines], 0, party));
        at += n_lines;
    }
    bytes
}

/// Frames, each with the lines of its fields behind it; `nth` says in which repetition.
fn frames(lines: &[&str], nth: u32, party: Party) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut lines = lines.iter().peekable();
    while let Some(line) = lines.next() {
        let (words, raw) = line.split_once(" | ").unwrap_or((line.trim_end_matches(" |"), ""));
        let mut payload = party.bytes(raw);
        let mut fields = Vec::new();
        while let Some(field) = lines.next_if(|line| line.starts_with("  ")) {
            fields.extend(blocks(field.trim_start(), party));
        }
        let words: Vec<&str> = words.split(' ').collect();
        if words == ["RAW"] {
            bytes.extend(payload);
            continue;
        }
        let [name, stream, words @ ..] = words.as_slice() else { panic!("no frame: {line}") };
        let stream = if *stream == "#" { 2 * nth + 1 } else { number(stream) };
        let mut flags = if ["HEADERS", "CONTINUATION", "PUSH_PROMISE"].contains(name) { 4 } else { 0 };
        let mut n_padding = 0;
        for word in words {
            match word.split_once('=') {
                Some(("flags", value)) => flags = number(value) as u8,
                Some(("padded", value)) => {
                    (flags, n_padding) = (flags | 8, number(value) as usize);
                    payload.insert(0, n_padding as u8);
                }
                Some((id, value)) => {
                    payload.extend((number(id) as u16).to_be_bytes());
                    payload.extend(number(value).to_be_bytes());
                }
                None => plain_word(word, &mut flags, &mut payload),
            }
        }
        payload.extend(fields);
        payload.resize(payload.len() + n_padding, 0);
        bytes.extend(frame(kind(name), flags, stream, &payload));
    }
    bytes
}

/// A word that is a flag, an increment, or the name of an error.
fn plain_word(word: &str, flags: &mut u8, payload: &mut Vec<u8>) {
    match word {
        "end" | "ack" => *flags |= 1,
        "more" => *flags &= !4,
        _ => match (word.strip_prefix('+'), CODES.iter().position(|name| *name == word)) {
            (Some(value), _) => payload.extend(number(value).to_be_bytes()),
            (None, Some(code)) => payload.extend((code as u32).to_be_bytes()),
            (None, None) => panic!("{word:?} says nothing of a frame"),
        },
    }
}

/// A field, or with `*100 ` before it as many, numbered where it has a `#`.
fn blocks(field: &str, party: Party) -> Vec<u8> {
    match field.strip_prefix('*').and_then(|field| field.split_once(' ')) {
        Some((n, field)) => {
            (0..number(n)).flat_map(|n| block(&field.replace('#', &n.to_string()), party)).collect()
        }
        None => block(&party.fill(field), party),
    }
}

/// A field as a literal that no table keeps (RFC 7541 section 6.2.2). `@ GET /a` is the head of a usual request.
fn block(field: &str, party: Party) -> Vec<u8> {
    if let Some((method, path)) = field.strip_prefix("@ ").and_then(|text| text.split_once(' ')) {
        let pseudo =
            [(":method", method), (":scheme", "http"), (":authority", "test.example"), (":path", path)];
        let usual = pseudo.map(|(name, value)| block(&format!("{name}: {value}"), party)).concat();
        return [usual, block(&party.fill("{tenant}"), party)].concat();
    }
    let (name, value) = match field[1..].find(": ") {
        Some(colon) => (&field[..=colon], &field[colon + 3..]),
        None => (field.strip_suffix(':').unwrap_or_else(|| panic!("no field: {field}")), ""),
    };
    let (name, value) = (unescape(name), unescape(value));
    [&[0], length(name.len()).as_slice(), &name, &length(value.len()), &value].concat()
}

/// A length with a prefix of seven bits (RFC 7541 section 5.1).
fn length(length: usize) -> Vec<u8> {
    if length < 127 {
        return vec![length as u8];
    }
    let (mut bytes, mut left) = (vec![127], length - 127);
    while left >= 128 {
        bytes.push((left % 128 + 128) as u8);
        left /= 128;
    }
    bytes.push(left as u8);
    bytes
}

fn number(text: &str) -> u32 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text:?} is no number"))
}

#[test]
fn frames_are_written_as_they_are_said() {
    let written = |text: &str| bytes(text, Party::Router);
    assert_eq!(written("PING 0 ack | 12345678"), b"\0\0\x08\x06\x01\0\0\0\x0012345678");
    assert_eq!(written("SETTINGS 0 4=65536"), [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0]);
    assert_eq!(written("RST_STREAM 3 CANCEL"), [0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 8]);
    assert_eq!(written("DATA 1 end padded=2 | a"), [0, 0, 4, 0, 9, 0, 0, 0, 1, 2, b'a', 0, 0]);
    assert_eq!(written("HEADERS 1 more\n  a: b"), [0, 0, 5, 1, 0, 0, 0, 0, 1, 0, 1, b'a', 1, b'b']);
    let twice = [&[0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 0, 0, 0, 3]].concat();
    assert_eq!(written("!repeat 2\nDATA # |\n!end"), twice);
    assert_eq!(length(127 + 300), [127, 172, 2]);
}
