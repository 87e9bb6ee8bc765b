//! The table's rows: text blocks in `rows/*.txt` and, in HTTP/2's frames, `frames/*.txt`, as values. Their READMEs explain
//! the form. It knows no sockets.

use std::collections::BTreeSet;
use std::{fs, path::Path};

/// Who stands between the client and the scripted upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    Router,
    Agent,
    Nginx,
    Haproxy,
}

/// One case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// The RFC section, or the design's own rule, that decides the case.
    pub(crate) source: String,
    pub(crate) says: String,
    /// The client's lines are frames, and not the bytes themselves.
    pub(crate) in_frames: bool,
    pub(crate) client: Vec<Step>,
    /// What the upstream does with its first request, the second, ...; then it answers 200.
    pub(crate) upstream: Vec<Play>,
    /// With whom the row is about a clock, which is short there; all others have time for a busy machine.
    clocked: Vec<Party>,
    /// What the upstream must have received.
    pub(crate) received: Vec<Line>,
}

/// What the client does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(String),
    /// Waits until the upstream has closed a connection.
    AwaitClosed,
    /// Waits until the upstream has the head of a request.
    AwaitBegun,
    Expect(Line),
}

/// An expectation, and of whom it is one.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    of: Vec<Party>,
    pub(crate) text: String,
}

/// What the upstream does with one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Play {
    pub(crate) bytes: String,
    /// It answers without having read the request's body.
    pub(crate) early: bool,
    pub(crate) then: Then,
}

/// What comes behind an answer of the upstream's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Then {
    #[default]
    Keep,
    Close,
    Hang,
}

impl Party {
    pub(crate) const ALL: [Self; 4] = [Self::Router, Self::Agent, Self::Nginx, Self::Haproxy];
    const OURS: [Self; 2] = [Self::Router, Self::Agent];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Agent => "agent",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// The field in which this party reads the tenant. What is no part of ours reads none.
    fn tenant_field(self) -> &'static str {
        if self == Self::Agent { "cofferdam-tenant" } else { "x-tenant-id" }
    }

    /// The party's name in Via.
    fn via(self) -> &'static str {
        if self == Self::Agent { "cofferdam-test+cell-a" } else { "cofferdam-test" }
    }

    /// Puts this party's own words in a text's places, and writes repetitions out.
    pub(crate) fn fill(self, text: &str) -> String {
        let tenant = format!("{}: acme", self.tenant_field());
        let mut text = text.replace("{tenant}", &tenant).replace("{via}", self.via());
        while let Some(start) = text.find("{repeat ") {
            let end = start + text[start..].find('}').expect("a repetition ends with a brace");
            let mut words = text[start + 8..end].splitn(2, ' ');
            let n: usize = words.next().and_then(|n| n.parse().ok()).expect("how often it is repeated");
            let part = words.next().expect("what is repeated").to_owned();
            let whole = match part.contains('#') {
                true => (0..n).map(|index| part.replace('#', &index.to_string())).collect(),
                false => part.repeat(n),
            };
            text.replace_range(start..=end, &whole);
        }
        text
    }

    /// The bytes that a text stands for when this party is spoken to.
    pub(crate) fn bytes(self, text: &str) -> Vec<u8> {
        unescape(&self.fill(text))
    }
}

impl Line {
    pub(crate) fn is_of(&self, party: Party) -> bool {
        self.of.contains(&party)
    }
}

/// Every row of the table, in the files' order.
pub(crate) fn all() -> Vec<Row> {
    [folder("rows", false), folder("frames", true)].concat()
}

fn folder(name: &str, in_frames: bool) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules").join(name);
    let entries =
        fs::read_dir(folder).expect("the folder of rows").map(|entry| entry.expect("an entry").path());
    let files: BTreeSet<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "txt")).collect();
    let texts = files.iter().map(|path| fs::read_to_string(path).expect("a file of rows"));
    texts.flat_map(|text| parse(&text, in_frames)).collect()
}

/// The rows of one file. Panics where a line has no meaning, since a line that is passed over would check nothing.
pub(crate) fn parse(text: &str, in_frames: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        if let Some((id, source)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
            rows.push(Row { id: id.to_owned(), source: source.to_owned(), in_frames, ..Row::default() });
            continue;
        }
        let row = rows.last_mut().expect("a row begins with its id in brackets");
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        row.read_line(mark, rest, line);
    }
    rows
}

impl Row {
    /// Whether the row is about a clock of this party's.
    pub(crate) fn is_clocked(&self, party: Party) -> bool {
        self.clocked.contains(&party)
    }

    fn read_line(&mut self, mark: &str, rest: &str, line: &str) {
        match mark {
            ">" if rest == "!closed" => self.client.push(Step::AwaitClosed),
            ">" if rest == "!begun" => self.client.push(Step::AwaitBegun),
            ">" => {
                let line = if self.in_frames { format!("{rest}\n") } else { wire_line(rest) };
                match self.client.last_mut() {
                    Some(Step::Send(sent)) => sent.push_str(&line),
                    _ => self.client.push(Step::Send(line)),
                }
            }
            "<" => self.upstream_line(rest),
            _ => match (of(mark.trim_end_matches(['=', '^', '~'])), mark.chars().next_back()) {
                (Some(of), Some('=')) => self.client.push(Step::Expect(Line { of, text: rest.to_owned() })),
                (Some(of), Some('~')) if rest == "clock" => self.clocked.extend(of),
                (Some(of), Some('^')) => self.received.push(Line { of, text: rest.to_owned() }),
                _ => {
                    self.says.push_str(if self.says.is_empty() { "" } else { " " });
                    self.says.push_str(line);
                }
            },
        }
    }

    fn upstream_line(&mut self, text: &str) {
        if self.upstream.is_empty() || text == "--" {
            self.upstream.push(Play::default());
        }
        let play = self.upstream.last_mut().expect("one was just put there");
        match text {
            "--" => {}
            "!early" => play.early = true,
            "!close" => play.then = Then::Close,
            "!hang" => play.then = Then::Hang,
            _ => play.bytes.push_str(&wire_line(text)),
        }
    }
}

/// The parties that a mark is about.
fn of(word: &str) -> Option<Vec<Party>> {
    match word {
        "" => Some(Party::ALL.to_vec()),
        "ours" => Some(Party::OURS.to_vec()),
        _ => Party::ALL.into_iter().find(|party| party.name() == word).map(|party| vec![party]),
    }
}

/// A line of a message: its end is CR LF, unless it says with a backslash that it has none.
fn wire_line(text: &str) -> String {
    match text {
        "@" => "Host: test.example\r\n{tenant}\r\n".to_owned(),
        _ => text.strip_suffix('\\').map_or_else(|| format!("{text}\r\n"), str::to_owned),
    }
}

/// `\r`, `\n`, `\t`, `\0` and `\xHH` as the bytes that they stand for.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'x') => {
                let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                let digits = std::str::from_utf8(&digits).expect("two hexadecimal digits");
                u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
            }
            Some(other) => panic!("\\{} stands for nothing", char::from(other)),
        });
    }
    bytes
}

#[test]
fn a_row_is_read_as_it_is_written() {
    let text = "[a-b] 9112 6.3\nIt says\nthis.\n> GET / HTTP/1.1\n> @\n>\n> x\\x00\\\n= 200\nagent= -via\n< !early\n< A\n< --\n\
                < !close\nagent~ clock\n^ none\n";
    let rows = parse(text, false);
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(
        (row.id.as_str(), row.source.as_str(), row.says.as_str()),
        ("a-b", "9112 6.3", "It says this.")
    );
    let Step::Send(sent) = &row.client[0] else { panic!("{row:?}") };
    let head = b"GET / HTTP/1.1\r\nHost: test.example\r\ncofferdam-tenant: acme\r\n\r\nx\0";
    assert_eq!(Party::Agent.bytes(sent), head);
    assert_eq!((row.upstream[0].early, row.upstream[0].bytes.as_str()), (true, "A\r\n"));
    assert_eq!((row.upstream.len(), row.upstream[1].then), (2, Then::Close));
    let Step::Expect(line) = &row.client[2] else { panic!("{row:?}") };
    assert!(line.is_of(Party::Agent) && !line.is_of(Party::Router) && line.text == "-via");
    assert!(row.is_clocked(Party::Agent) && !row.is_clocked(Party::Router));
    assert_eq!(Party::Router.fill("{repeat 2 x-#;}{via}"), "x-0;x-1;cofferdam-test");
}
