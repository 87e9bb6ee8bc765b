//! Answers at random: mostly well formed, with the spellings that readers differ on, then cut, broken and cut short.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// What an upstream says, and in which pieces.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) bytes: Vec<u8>,
    cuts: Vec<Index>,
}

impl Said {
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        Self { bytes, cuts: Vec::new() }
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut ends: Vec<usize> = self.cuts.iter().map(|cut| cut.index(self.bytes.len() + 1)).collect();
        ends.push(self.bytes.len());
        ends.sort_unstable();
        let mut start = 0;
        ends.into_iter().map(move |end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }
}

pub(crate) fn said() -> impl Strategy<Value = Said> {
    let answer = (interim(), status_line(), vec(field(), 0..4), framing());
    let bytes = answer.prop_map(|(interim, status, fields, (framing, body))| {
        [
            interim.as_bytes(),
            status.as_bytes(),
            fields.concat().as_bytes(),
            framing.as_bytes(),
            b"\r\n",
            &body,
        ]
        .concat()
    });
    let mutations = prop_oneof![3 => Just(Vec::new()), 2 => vec(mutation(), 1..3)];
    let length = prop_oneof![4 => Just(None), 1 => any::<Index>().prop_map(Some)];
    (bytes, mutations, length, vec(any::<Index>(), 0..4)).prop_map(|(mut bytes, mutations, length, cuts)| {
        for mutation in mutations {
            mutation.apply(&mut bytes);
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len() + 1));
        }
        Said { bytes, cuts }
    })
}

/// A change of one byte.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
}

impl Mutation {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), byte),
            _ if bytes.is_empty() => {}
            Self::Replace(at, byte) => *at.get_mut(bytes) = byte,
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let byte = || prop_oneof![3 => select(b"\r\n \t:;,0159afx\0\x7f\xff".to_vec()), 1 => any::<u8>()];
    prop_oneof![
        (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        any::<Index>().prop_map(Mutation::Remove),
    ]
}

fn interim() -> impl Strategy<Value = String> {
    const HINTS: [&str; 2] = ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"];
    prop_oneof![
        8 => Just(String::new()),
        2 => vec(select(&HINTS[..]), 1..3).prop_map(|hints| hints.concat()),
        1 => vec(select(&HINTS[..]), 15..18).prop_map(|hints| hints.concat()),
    ]
}

fn status_line() -> impl Strategy<Value = String> {
    let version = prop_oneof![8 => Just("HTTP/1.1"), 2 => Just("HTTP/1.0"), 1 => select(&["HTTP/1.2", "http/1.1", "\r\nHTTP/1.1"][..])];
    let status = prop_oneof![
        8 => Just("200"),
        4 => select(&["204", "304", "404", "500", "205", "599"][..]),
        1 => select(&["099", "101", "600", "999", "20", "2000"][..]),
    ];
    let reason = select(&[" OK", "", " ", " Not \u{fc}bel", "  spaced"][..]);
    let end = prop_oneof![8 => Just("\r\n"), 1 => Just("\n")];
    (version, status, reason, end)
        .prop_map(|(version, status, reason, end)| format!("{version} {status}{reason}{end}"))
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => select(&[
            "server: a\r\n",
            "Set-Cookie: a=b; c\r\n",
            "set-cookie: d\r\n",
            "x-empty:\r\n",
            "x-blank: \t \r\n",
            "X-Padded:  a  \r\n",
            "x-lf: a\n",
            "connection: close\r\n",
            "connection: keep-alive, x\r\n",
            "trailer: x-sum\r\n",
        ][..])
        .prop_map(str::to_owned),
        1 => select(&[
            "x-folded: a\r\n b\r\n",
            "x-space : a\r\n",
            "x-cr: a\rb\r\n",
            "x-nul: a\0\r\n",
            "no colon\r\n",
            ": nameless\r\n",
            "upgrade: websocket\r\n",
        ][..])
        .prop_map(str::to_owned),
        1 => (94..102usize).prop_map(|n| "x-many: a\r\n".repeat(n)),
        1 => (1..70_000usize).prop_map(|n| format!("x-long: {}\r\n", "a".repeat(n))),
    ]
}

/// Framing fields, and a body that mostly fits them.
fn framing() -> impl Strategy<Value = (String, Vec<u8>)> {
    let length = (data(), select(&["", "0", "+", " ", "\t"][..]))
        .prop_map(|(data, before)| (format!("Content-Length:{before}{}\r\n", data.len()), data));
    let chunked = (coding(), chunks());
    let odd = select(
        &[
            "content-length: 3\r\ncontent-length: 3\r\n",
            "content-length: 3\r\ncontent-length: 4\r\n",
            "content-length: 3, 3\r\n",
            "content-length: 3, 4\r\n",
            "content-length: -3\r\n",
            "content-length: 18446744073709551614\r\n",
            "content-length: 9223372036854775808\r\n",
            "content-length: 0x3\r\n",
        ][..],
    )
    .prop_map(str::to_owned);
    let both = (select(&["content-length: 3\r\n", "content-length: 4, 4\r\n"][..]), coding(), chunks())
        .prop_map(|(length, coding, body)| (format!("{length}{coding}"), body));
    prop_oneof![
        4 => length,
        6 => chunked,
        2 => (Just(String::new()), data()),
        1 => (odd, data()),
        1 => both,
    ]
}

fn coding() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => select(&["Transfer-Encoding: chunked\r\n", "transfer-encoding:CHUNKED \r\n"][..]),
        1 => select(&[
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, gzip\r\n",
            "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding: chunked;q=1\r\n",
            "transfer-encoding:\r\n",
        ][..]),
    ]
    .prop_map(str::to_owned)
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(select(b"abc\r\n0;".to_vec()), 0..20), (1usize..20_000).prop_map(|n| vec![b'x'; n])]
}

fn chunks() -> impl Strategy<Value = Vec<u8>> {
    let extension = || {
        prop_oneof![
            10 => Just(String::new()),
            2 => select(&[";a=b", " ;a", ";", ";a=\"\u{fc};\""][..]).prop_map(str::to_owned),
            1 => select(&[" ", "\t", ";a\rb", ";a\x01"][..]).prop_map(str::to_owned),
            1 => (4000usize..4200).prop_map(|n| format!(";{}", "e".repeat(n))),
        ]
    };
    let size = |size: usize, spelling: u8| match spelling {
        0 => format!("{size:X}"),
        1 => format!("{size:016x}"),
        2 => format!("{size:018x}"),
        3 => format!("0x{size:x}"),
        _ => format!("{size:x}"),
    };
    let chunk = (vec(select(b"abc\r\n0;".to_vec()), 1..20), extension(), 0..12u8).prop_map(
        move |(data, extension, spelling)| {
            [format!("{}{extension}\r\n", size(data.len(), spelling)).as_bytes(), &data, b"\r\n"].concat()
        },
    );
    let trailers = prop_oneof![
        6 => Just(String::new()),
        3 => select(&["x-sum: a\r\n", "a: b\r\nc:\r\na: d\r\n", "content-length: 3\r\nx-sum: a\r\n", "host: a\r\n"][..])
            .prop_map(str::to_owned),
        1 => select(&["a\r\n", "a: b\n", "a : b\r\n", "a: b\r\n c\r\n"][..]).prop_map(str::to_owned),
        1 => (30usize..35).prop_map(|n| "a: b\r\n".repeat(n)),
    ];
    (vec(chunk, 0..4), extension(), trailers, select(&["", "", "", "garbage"][..])).prop_map(
        |(chunks, extension, trailers, behind)| {
            [chunks.concat().as_slice(), format!("0{extension}\r\n{trailers}\r\n{behind}").as_bytes()]
                .concat()
        },
    )
}
