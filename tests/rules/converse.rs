//! The runner of rows in frames: plays one against whoever listens at an address, and says where it was not as the row
//! expects.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::frame::{self, PREFACE, code_name};
use super::heard::{self, Heard};
use super::row::{Line, Party, Row, Step};
use super::run::{check_received, judge};
use super::upstream::{PATIENCE, Upstream};
use crate::support::within;

/// The stream of the first question whether a connection is open, far behind every row's own.
const PROBE: u32 = 1_000_001;

/// The largest frame that a server may send to who has not said otherwise.
const MAX_FRAME: usize = 16_384;

/// A row under way.
struct Run<'r> {
    party: Party,
    upstream: &'r Upstream,
    writer: OwnedWriteHalf,
    heard: watch::Receiver<Heard>,
    /// The stream that expectations are about.
    stream: u32,
    probe: u32,
    n_received: Option<usize>,
    differences: Vec<String>,
}

/// Plays a row; the result says what was other than the row expects.
pub(crate) async fn play(row: &Row, party: Party, to: SocketAddr, upstream: &Upstream) -> Vec<String> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (reader, writer) = stream.into_split();
    let (sender, heard) = watch::channel(Heard::default());
    let mut listening = JoinSet::new();
    listening.spawn(heard::listen(reader, sender));
    let (n_received, differences) = (None, Vec::new());
    let mut run = Run { party, upstream, writer, heard, stream: 0, probe: PROBE, n_received, differences };
    let is_bare = matches!(row.client.first(), Some(Step::Send(text)) if text.starts_with("RAW"));
    if !is_bare {
        run.greet().await;
    }
    for step in &row.client {
        match step {
            Step::Send(text) => run.send(&frame::bytes(text, party)).await,
            Step::AwaitClosed => within("a close of the upstream's", upstream.closed()).await,
            Step::AwaitBegun => upstream.begun().await,
            Step::Expect(line) if line.is_of(party) => run.expect(line).await,
            Step::Expect(_) => {}
        }
    }
    let n_begun = run.n_received.unwrap_or(upstream.n_begun());
    let received = check_received(row, party, upstream, n_begun).await;
    run.differences.extend(received);
    run.differences.extend(run.heard.borrow().faults.iter().cloned());
    if run.heard.borrow().longest > MAX_FRAME {
        run.differences.push("sends frames above the least bound".to_owned());
    }
    run.differences.dedup();
    run.differences
}

impl Run<'_> {
    fn differ(&mut self, what: String) {
        self.differences.push(what);
    }

    /// Who refuses early may close before all is sent.
    async fn send(&mut self, bytes: &[u8]) {
        drop(timeout(PATIENCE, self.writer.write_all(bytes)).await);
    }

    /// The preface, and settings from both sides.
    async fn greet(&mut self) {
        self.send(&[PREFACE, &frame::frame(frame::kind("SETTINGS"), 0, 0, &[])].concat()).await;
        if !self.wait(|heard| heard.settings && heard.n_acknowledged > 0).await {
            self.differ("does not greet".to_owned());
        }
        self.send(&frame::frame(frame::kind("SETTINGS"), 1, 0, &[])).await;
    }

    /// Whether something comes to be so.
    async fn wait(&mut self, is_so: impl FnMut(&Heard) -> bool) -> bool {
        timeout(PATIENCE, self.heard.wait_for(is_so)).await.is_ok_and(|waited| waited.is_ok())
    }

    async fn expect(&mut self, line: &Line) {
        let text = self.party.fill(&line.text);
        let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match (first, first.parse::<u32>()) {
            ("closed", _) => {
                if !self.wait(|heard| heard.is_closed).await {
                    self.differ("stays open".to_owned());
                }
            }
            ("open", _) => self.expect_open().await,
            ("pong", _) => {
                let payload = rest.as_bytes().to_vec();
                if !self.wait(|heard| heard.pongs.contains(&payload)).await {
                    self.differ(format!("does not answer the ping {rest}"));
                }
            }
            ("acked", _) => {
                // The first acknowledgement is of the greeting.
                let n: usize = rest.parse().unwrap();
                if !self.wait(|heard| heard.n_acknowledged > n).await {
                    self.differ("does not acknowledge the settings".to_owned());
                }
            }
            (_, Ok(0)) => self.expect_goaway(rest).await,
            (_, Ok(stream)) => self.expect_end(stream, rest).await,
            _ => {
                let heard = self.heard.borrow();
                let told = heard.streams.get(&self.stream).map(|stream| judge(&stream.message, &text));
                let told = told.and_then(Result::err);
                drop(heard);
                self.differences.extend(told.map(|told| format!("stream {}: {told}", self.stream)));
            }
        }
    }

    /// The end of a connection, and the error that it is said to end with.
    async fn expect_goaway(&mut self, codes: &str) {
        let ended = self.wait(|heard| heard.is_closed).await;
        let came = self.heard.borrow().goaway.map_or("without a word".to_owned(), code_name);
        if !ended {
            self.differ("stays open".to_owned());
        } else if !codes.split('/').any(|code| code == came) {
            self.differ(format!("ends {came}"));
        }
    }

    /// How a stream ends: by an answer with a status, by a reset with an error, with its connection (`goaway`), or not
    /// at all (`none`), which is only known once something else has been answered.
    async fn expect_end(&mut self, stream: u32, expected: &str) {
        self.stream = stream;
        let over = |heard: &Heard| {
            let known = heard.streams.get(&stream);
            known.is_some_and(|known| known.message.whole || known.reset.is_some()) || heard.is_closed
        };
        if expected != "none" {
            self.wait(over).await;
        }
        let came = {
            let heard = self.heard.borrow();
            match heard.streams.get(&stream) {
                Some(known) if known.message.whole => known.message.head.second_word().to_owned(),
                Some(known) if known.reset.is_some() => code_name(known.reset.unwrap_or_default()),
                _ if heard.is_closed => "goaway".to_owned(),
                _ => "none".to_owned(),
            }
        };
        if !expected.split('/').any(|expected| expected == came) {
            self.differ(format!("stream {stream} is {came}"));
        }
    }

    /// Another request is answered on the same connection. It is no request of the row's.
    async fn expect_open(&mut self) {
        self.n_received.get_or_insert(self.upstream.n_begun());
        let stream = self.probe;
        self.probe += 2;
        self.send(&frame::bytes(&format!("HEADERS {stream} end\n  @ GET /probe\n"), self.party)).await;
        let answered = self
            .wait(|heard| {
                let known = heard.streams.get(&stream);
                known.is_some_and(|known| known.message.whole) || heard.is_closed
            })
            .await;
        if !answered || self.heard.borrow().is_closed {
            self.differ("closes".to_owned());
            return;
        }
        let status = self.heard.borrow().streams[&stream].message.head.second_word().to_owned();
        if status != "200" {
            self.differ(format!("the next request is answered {status}"));
        }
    }
}
