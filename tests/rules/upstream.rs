//! The scripted upstream of one row: it says what the row says, and remembers what it received.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::row::{Party, Play, Then};
use super::wire::Message;
use crate::support::message::read_head;
use crate::support::scripted::Scripted;

/// How long anything is waited for. Whoever takes longer has not answered. It is longer than a clock that a row is about,
/// and shorter than any other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that plays one row.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) server: Scripted,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    plays: Vec<(Vec<u8>, bool, Then)>,
    n_begun: watch::Sender<usize>,
    n_ended: watch::Sender<usize>,
    has_closed: watch::Sender<bool>,
    /// An empty line came before a request, which no client sends (RFC 9112 section 2.2).
    is_stray: AtomicBool,
    /// With the number of the connection that each came by.
    received: Mutex<Vec<(usize, Message)>>,
}

impl Upstream {
    pub(crate) async fn start(plays: &[Play], party: Party) -> Self {
        let plays = plays.iter().map(|play| (party.bytes(&play.bytes), play.early, play.then)).collect();
        let (n_begun, n_ended, has_closed) =
            (watch::Sender::new(0), watch::Sender::new(0), watch::Sender::new(false));
        let state = Arc::new(State {
            plays,
            n_begun,
            n_ended,
            has_closed,
            is_stray: AtomicBool::new(false),
            received: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        let server = Scripted::raw(move |stream, number| {
            let state = Arc::clone(&serving);
            async move {
                let _ = state.serve(stream, number).await;
                // The stream is gone by now.
                state.has_closed.send_replace(true);
            }
        })
        .await;
        Self { server, state }
    }

    /// The requests so far, each with the number of its connection.
    pub(crate) fn received(&self) -> Vec<(usize, Message)> {
        self.state.received.lock().unwrap().clone()
    }

    /// A request, once it has come to its end; `None` where none does in time.
    pub(crate) async fn nth(&self, nth: usize) -> Option<Message> {
        let mut ended = self.state.n_ended.subscribe();
        let has_come = async { ended.wait_for(|n_ended| *n_ended > nth).await.is_ok() };
        tokio::time::timeout(PATIENCE, has_come).await.ok()?;
        self.received().get(nth).map(|(_, message)| message.clone())
    }

    /// Whether an empty line came where a request begins.
    pub(crate) fn is_stray(&self) -> bool {
        self.state.is_stray.load(Ordering::Relaxed)
    }

    /// How many requests have begun, read to their end or not.
    pub(crate) fn n_begun(&self) -> usize {
        *self.state.n_begun.borrow()
    }

    /// Waits for the head of a request. Who never sends one is found out by what else is expected.
    pub(crate) async fn begun(&self) {
        let mut begun = self.state.n_begun.subscribe();
        let _ = tokio::time::timeout(PATIENCE, begun.wait_for(|n_begun| *n_begun > 0)).await;
    }

    /// Waits until one connection has been closed from this side.
    pub(crate) async fn closed(&self) {
        let _ = self.state.has_closed.subscribe().wait_for(|closed| *closed).await;
    }
}

impl State {
    async fn serve(&self, stream: TcpStream, number: usize) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            if stream.fill_buf().await?.first().is_some_and(|byte| b"\r\n".contains(byte)) {
                self.is_stray.store(true, Ordering::Relaxed);
            }
            let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
            let nth = *self.n_begun.borrow();
            self.n_begun.send_modify(|n_begun| *n_begun += 1);
            let (bytes, early, then) = self
                .plays
                .get(nth)
                .map_or((OK, false, Then::Keep), |(bytes, early, then)| (bytes, *early, *then));
            if early {
                stream.write_all(bytes).await?;
            }
            let framing = head.request_framing();
            let message = Message::with_body(head, framing, &mut stream).await;
            let whole = message.whole;
            // The question whether a connection is open is no request of the row's.
            if message.head.second_word() != "/probe" {
                self.received.lock().unwrap().push((number, message));
                self.n_ended.send_modify(|n_ended| *n_ended += 1);
            }
            if !whole {
                return Ok(());
            }
            if !early {
                stream.write_all(bytes).await?;
            }
            match then {
                Then::Keep => {}
                Then::Close => return Ok(()),
                // Until the other side gives up.
                Then::Hang => drop(stream.read(&mut [0]).await?),
            }
        }
    }
}
