//! What a connection's stream and its requests know of each other, and the end of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{BufMut, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode, Version};
use http_body::Body;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::heads::{Framing, Heads};
use crate::fields::lists;
use crate::framing::{self, FramingError};
use crate::guard::{End, OnEnd};
use crate::interim::{NextAnswer, put_answer_head};
use crate::problem::Problem;
use crate::tunnel::{self, Tunnel};

/// How long, and for how many bytes, a closed connection is read on.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1024);

/// What a connection's stream and its requests know of each other.
#[derive(Default)]
pub(crate) struct Turn {
    /// A request is being answered: what comes is its body.
    pub(super) busy: AtomicBool,
    /// The request that was read last has a body.
    pub(super) has_body: AtomicBool,
    /// The answer has ended in this turn of the connection's task: what is left of the request's body may still be read.
    pub(super) settles: AtomicBool,
    /// How many requests have been read; it may wrap.
    pub(super) n_requests: AtomicU32,
    pub(super) draining: AtomicBool,
    /// Where the stream comes back to, with how it ended.
    pub(super) home: Mutex<Option<(TcpStream, Last)>>,
    /// What the connection becomes once its last answer, a 101, is written.
    tunnel: Mutex<Option<Box<Tunnel>>>,
    pub(super) heads: Mutex<Heads>,
    pub(super) next: Arc<NextAnswer>,
    /// The client speaks HTTP/1.0, and the server would call the answer one of HTTP/1.0 too.
    pub(super) is_http10: AtomicBool,
}

/// How a connection's last turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// By an answer, or between two requests.
    Orderly,
    /// With a head that was never finished.
    HeadTimeout,
    /// With a client that takes nothing.
    Stalled,
    /// With a head that the server refuses by this status.
    Refused(StatusCode),
}

/// One answer's part in a connection's turn: the turn is over when the answer's body has ended.
pub(crate) struct Answering {
    turn: Arc<Turn>,
    /// Whether the request itself says that the connection ends with its answer.
    closes: bool,
}

impl Turn {
    /// A request has been read: until the result is dropped or told of its end, it is being answered.
    pub(crate) fn answering(self: &Arc<Self>, has_body: bool) -> Answering {
        self.has_body.store(has_body, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        self.n_requests.fetch_add(1, Ordering::Relaxed);
        Answering { turn: Arc::clone(self), closes: false }
    }

    /// The server has read a request of HTTP/1.1 or HTTP/1.0. A fault of its framing rides in its extensions from now on,
    /// and ends the connection.
    pub(crate) fn begin<B: Body>(self: &Arc<Self>, request: &mut Request<B>) -> Answering {
        let has_body = !request.body().is_end_stream();
        let framing = match request.body().size_hint().exact() {
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        let mut fault = framing::check_codings(request.headers()).err();
        if self.heads.lock().take(framing) {
            fault = Some(FramingError::Fragment);
        }
        let is_http10 = request.version() == Version::HTTP_10;
        self.next.begin(!is_http10);
        self.is_http10.store(is_http10, Ordering::Relaxed);
        let keeps = !is_http10 || lists(request.headers(), &CONNECTION, "keep-alive");
        let mut answering = self.answering(has_body);
        answering.closes = fault.is_some() || !keeps;
        if let Some(fault) = fault {
            request.extensions_mut().insert(fault);
        }
        answering
    }

    /// Ready once nothing has been asked or answered for `quiet`.
    pub(crate) async fn quiet(&self, quiet: Duration) {
        let state = || (self.busy.load(Ordering::Relaxed), self.n_requests.load(Ordering::Relaxed));
        loop {
            let before = state();
            sleep(quiet).await;
            if !before.0 && state() == before {
                return;
            }
        }
    }

    /// Heads that have begun have little time from now on, and each answer is the last.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// What is known of the next answer.
    pub(crate) fn next_answer(&self) -> Arc<NextAnswer> {
        Arc::clone(&self.next)
    }

    /// What the connection becomes now that its server has ended.
    pub(crate) fn tunnel(&self) -> Option<Box<Tunnel>> {
        self.tunnel.lock().take()
    }

    /// Ends what is left of the connection, once the server has let go of its stream. `problem` says how a head is refused
    /// that no request was made of.
    pub(crate) async fn close(&self, problem: impl Fn(StatusCode) -> Problem) {
        let Some((mut stream, last)) = self.home.lock().take() else { return };
        let status = match last {
            Last::Stalled => return,
            Last::HeadTimeout => Some(StatusCode::REQUEST_TIMEOUT),
            Last::Refused(status) => Some(status),
            Last::Orderly => None,
        };
        if let Some(status) = status {
            let answer = last_answer(problem(status));
            let _ = timeout(LINGER.0, stream.write_all(&answer)).await;
        }
        let _ = timeout(LINGER.0, linger(stream)).await;
    }
}

/// The bytes of an answer that the server does not write, and that ends its connection.
fn last_answer(problem: Problem) -> BytesMut {
    let (mut head, body) = problem.into_response().into_parts();
    let date = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()));
    head.headers.extend(date.ok().map(|date| (DATE, date)));
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let mut bytes = BytesMut::with_capacity(512);
    put_answer_head(head.status, &head.headers, &mut bytes);
    bytes.put_slice(&body);
    bytes
}

/// Says that nothing more is written, and reads on until the other side has closed.
async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    // In a box of its own, or each connection would have room for it for as long as it stands.
    let (mut scratch, mut left) = (vec![0; 4096], LINGER.1);
    while let Ok(n @ 1..) = stream.read(&mut scratch).await {
        left = left.saturating_sub(n);
        if left == 0 {
            return;
        }
    }
}

impl Answering {
    /// Keeps the tunnel of a 101 until that is written. A connection that drains has no future to change its protocol for.
    pub(crate) fn switch<B>(&self, answer: &mut Response<B>) {
        let tunnel = tunnel::take(answer);
        if self.turn.draining.load(Ordering::Relaxed) {
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            *answer.headers_mut() = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]);
            return;
        }
        *self.turn.tunnel.lock() = tunnel;
    }

    /// Whether the connection ends with this answer.
    pub(crate) fn is_last(&self) -> bool {
        self.closes || self.turn.draining.load(Ordering::Relaxed)
    }

    /// The server gets the answer now.
    pub(crate) fn answers(&self) {
        self.turn.next.is_due_now();
    }
}

impl OnEnd for Answering {
    fn on_end(self, _end: End) {}
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.turn.settles.store(true, Ordering::Relaxed);
        self.turn.busy.store(false, Ordering::Relaxed);
    }
}
