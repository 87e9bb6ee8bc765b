//! The one runner: plays a row against whoever listens at an address, and says where it was not as the row expects.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::row::{Line, Party, Row, Step};
use super::upstream::{PATIENCE, Upstream};
use super::wire::Message;
use crate::support::within;

/// What was other than expected, by row.
pub(crate) type Seen = BTreeMap<String, Vec<String>>;

/// A row under way.
struct Run<'r> {
    party: Party,
    upstream: &'r Upstream,
    stream: BufReader<TcpStream>,
    /// The answer that expectations are about.
    answer: Option<Message>,
    n_answers: usize,
    n_received: Option<usize>,
    differences: Vec<String>,
}

/// Plays a row; the result says what was other than the row expects.
pub(crate) async fn play(row: &Row, party: Party, to: SocketAddr, upstream: &Upstream) -> Vec<String> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let stream = BufReader::new(stream);
    let (answer, n_answers, n_received, differences) = (None, 0, None, Vec::new());
    let mut run = Run { party, upstream, stream, answer, n_answers, n_received, differences };
    for step in &row.client {
        match step {
            // Who refuses early may close before all is sent.
            Step::Send(text) => drop(timeout(PATIENCE, run.stream.write_all(&party.bytes(text))).await),
            Step::AwaitClosed => within("a close of the upstream's", upstream.closed()).await,
            Step::AwaitBegun => upstream.begun().await,
            Step::Expect(line) if line.is_of(party) => run.expect(line).await,
            Step::Expect(_) => {}
        }
    }
    let n_begun = run.n_received.unwrap_or(upstream.n_begun());
    run.differences.extend(check_received(row, party, upstream, n_begun).await);
    run.differences.dedup();
    run.differences
}

impl Run<'_> {
    fn differ(&mut self, what: String) {
        self.differences.push(what);
    }

    async fn expect(&mut self, line: &Line) {
        let text = self.party.fill(&line.text);
        match text.as_str() {
            "closed" => self.expect_end().await,
            "open" => self.expect_open().await,
            "none" => {
                if let Some(answer) = self.next(false).await {
                    self.differ(format!("answers {}", answer.head.second_word()));
                }
            }
            text if text.starts_with(|c: char| c.is_ascii_digit()) => self.expect_answer(text).await,
            text => {
                if let Some(answer) = self.answer.clone() {
                    let told = judge(&answer, text).err();
                    self.differences.extend(told.map(|told| format!("answer {}: {told}", self.n_answers)));
                }
            }
        }
    }

    async fn next(&mut self, to_head: bool) -> Option<Message> {
        timeout(PATIENCE, Message::answer(&mut self.stream, to_head)).await.ok().flatten()
    }

    /// `200`, `200 head` for an answer to HEAD, `200 cut` for one whose body breaks off; `400/501` where either will do.
    async fn expect_answer(&mut self, text: &str) {
        let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
        self.n_answers += 1;
        self.answer = self.next(rest == "head").await;
        let n = self.n_answers;
        let Some(answer) = &self.answer else { return self.differ(format!("answer {n} is missing")) };
        let (came, whole) = (answer.head.second_word().to_owned(), answer.whole);
        if !status.split('/').any(|status| status == came) {
            self.differ(format!("answer {n} is {came}"));
        }
        if whole == (rest == "cut") {
            self.differ(format!("answer {n} {}", if whole { "is whole" } else { "breaks off" }));
        }
    }

    async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        let ended = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await.is_ok();
        if !rest.is_empty() {
            let line = String::from_utf8_lossy(&rest).lines().next().unwrap_or_default().to_owned();
            self.differ(format!("more comes: {line}"));
        }
        if !ended {
            self.differ("stays open".to_owned());
        }
    }

    /// Another request is answered on the same connection. It is no request of the row's.
    async fn expect_open(&mut self) {
        self.n_received = Some(self.upstream.n_begun());
        let probe = self.party.bytes("GET /probe HTTP/1.1\r\nHost: test.example\r\n{tenant}\r\n\r\n");
        let _ = self.stream.write_all(&probe).await;
        match self.next(false).await.map(|answer| answer.head.second_word().to_owned()) {
            None => self.differ("closes".to_owned()),
            Some(status) if status != "200" => self.differ(format!("the next request is answered {status}")),
            Some(_) => {}
        }
    }
}

/// What the upstream has: `none`, `2 requests`, `1 connection`, `--` for the next request, its first line, or what is
/// said of a message.
pub(crate) async fn check_received(
    row: &Row,
    party: Party,
    upstream: &Upstream,
    n_begun: usize,
) -> Vec<String> {
    let received = upstream.received();
    let mut differences = Vec::new();
    if upstream.is_stray() {
        differences.push("upstream: an empty line comes before a request".to_owned());
    }
    let mut nth = 0;
    for line in row.received.iter().filter(|line| line.is_of(party)) {
        let text = party.fill(&line.text);
        let words: Vec<&str> = text.split(' ').collect();
        let told = match words.as_slice() {
            ["--"] => {
                nth += 1;
                continue;
            }
            ["none"] => equal("requests", 0, n_begun),
            [n, "requests"] => equal("requests", n.parse().unwrap(), n_begun),
            [n, "connections"] => {
                let mut numbers: Vec<_> = received.iter().take(n_begun).map(|(number, _)| *number).collect();
                numbers.dedup();
                equal("connections", n.parse().unwrap(), numbers.len())
            }
            _ => match upstream.nth(nth).await {
                None => Err(format!("request {} is missing", nth + 1)),
                Some(request) => {
                    judge(&request, &text).map_err(|told| format!("request {}: {told}", nth + 1))
                }
            },
        };
        differences.extend(told.err().map(|told| format!("upstream: {told}")));
    }
    differences
}

fn equal(what: &str, expected: usize, came: usize) -> Result<(), String> {
    if expected == came { Ok(()) } else { Err(format!("{came} {what}")) }
}

/// What is said of a message: `body TEXT`, `line FIRST LINE`, `cut`, `name: value`, `-name`, or with `trailer ` before it
/// the same of its trailers. A value may begin or end with a `*`.
pub(crate) fn judge(message: &Message, text: &str) -> Result<(), String> {
    if let Some(body) = text.strip_prefix("body ") {
        let came = String::from_utf8_lossy(&message.body);
        let body = if body == "empty" { "" } else { body };
        return if came == body {
            Ok(())
        } else {
            Err(format!("body is {:?}", came.get(..40).unwrap_or(&came)))
        };
    }
    if let Some(line) = text.strip_prefix("line ") {
        let came = &message.head.line;
        return if came == line { Ok(()) } else { Err(came.clone()) };
    }
    if text == "cut" || text == "whole" {
        let word = if message.whole { "whole" } else { "cut" };
        return if word == text { Ok(()) } else { Err(word.to_owned()) };
    }
    let (fields, text) = match text.strip_prefix("trailer ") {
        Some(text) => (&message.trailers, text),
        None => (&message.head.fields, text),
    };
    if let Some(name) = text.strip_prefix('-') {
        return match Message::value(fields, name) {
            None => Ok(()),
            Some(value) => Err(format!("{name}: {value}")),
        };
    }
    let (name, expected) = text.split_once(": ").unwrap_or_else(|| panic!("nothing is said by {text:?}"));
    match Message::value(fields, name) {
        Some(value) if is_like(&value, expected) => Ok(()),
        // A clock's time is another in every run.
        Some(_) if name == "date" => Err("another date".to_owned()),
        Some(value) => Err(format!("{name}: {value}")),
        None => Err(format!("no {name}")),
    }
}

fn is_like(value: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        _ if pattern == "*" => true,
        (Some(_), Some(_)) => value.contains(pattern.trim_matches('*')),
        (Some(end), None) => value.ends_with(end),
        (None, Some(start)) => value.starts_with(start),
        (None, None) => value == pattern,
    }
}

#[test]
fn a_message_is_judged_by_its_line_its_fields_and_its_body() {
    let head = crate::support::message::Head { line: "GET / HTTP/1.1".to_owned(), fields: vec![] };
    let mut message = Message { head, body: b"abc".to_vec(), trailers: vec![], whole: true };
    message.head.fields.push(("via".to_owned(), "1.1 a, 1.1 b".to_owned()));
    for text in [
        "line GET / HTTP/1.1",
        "body abc",
        "whole",
        "-x",
        "via: *, 1.1 b",
        "via: 1.1 a*",
        "via: *",
        "-trailer x",
    ] {
        assert_eq!(judge(&message, text), Ok(()), "{text}");
    }
    for text in ["line GET /x HTTP/1.1", "body ab", "cut", "-via", "via: 1.1 a", "x: *", "trailer via: *"] {
        assert!(judge(&message, text).is_err(), "{text}");
    }
}
