//! One connection: how it is opened, who has a place on it, and the driver that reads and writes it. It knows no pool.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::limits::Http2Limits;
use super::wire::{Tally, Wire};
use crate::upstream::address::{Address, Stream};
use crate::upstream::fault::{ConnectFault, closed};
use crate::upstream::limits::UpstreamLimits;
use crate::upstream::names::Stamp;
use crate::upstream::pool::LOOK_EVERY;

/// The length of a frame's head: the first that a server sends is SETTINGS (RFC 9113 section 3.4).
const FRAME_HEAD: u64 = 9;

/// The most that waits to be sent on one stream.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// The longest that a connection on which no stream will be opened again may take to end. Nothing of anybody's is on it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Pings in one silence. Servers of gRPC close a connection on the fourth that comes too soon for them.
const MAX_PINGS: u32 = 2;

/// A connection that streams can be opened on.
#[derive(Debug)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    shared: Arc<Shared>,
    route: Route,
    max_streams: usize,
}

/// Where a connection leads, and what it was made by.
#[derive(Debug, Clone)]
struct Route {
    address: Address,
    stamp: Option<Stamp>,
}

/// What a connection, its driver and its streams know of each other.
#[derive(Debug)]
pub(super) struct Shared {
    tally: Arc<Tally>,
    n_open: AtomicUsize,
    /// Whether a stream was ever opened.
    used: AtomicBool,
    /// Whether no other stream may be opened.
    retired: AtomicBool,
    /// When the last stream ended.
    quiet_since: Mutex<Instant>,
}

/// One stream's place on a connection, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Shared>);

/// What reads and writes a connection.
#[derive(Debug)]
pub(super) struct Driver {
    connection: client::Connection<Wire, Bytes>,
    pings: Option<PingPong>,
    shared: Arc<Shared>,
    route: Route,
    idle: Duration,
    ping: Duration,
}

/// Why a driver stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The connection has ended, or has to.
    Ended,
    /// No stream has been open for long. It can be driven on.
    Idle,
}

/// Connects, and waits until the other side has shown that it speaks HTTP/2: one that does not has executed nothing.
pub(super) async fn open(
    address: &Address,
    limits: UpstreamLimits,
    http2: Http2Limits,
) -> Result<(Connection, Driver), ConnectFault> {
    let deadline = Instant::now() + limits.connect;
    let stream = address.connect(limits.connect).await?;
    let route = Route { address: address.clone(), stamp: address.stamp(&stream) };
    let opened = timeout_at(deadline, shake_hands(stream, route, limits, http2)).await;
    opened.unwrap_or_else(|_| Err(ConnectFault::Unopened(io::ErrorKind::TimedOut.into())))
}

async fn shake_hands(
    stream: Stream,
    route: Route,
    limits: UpstreamLimits,
    http2: Http2Limits,
) -> Result<(Connection, Driver), ConnectFault> {
    let tally = Arc::<Tally>::default();
    let wire = Wire::new(stream, Arc::clone(&tally));
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(http2.stream_window)
        .initial_connection_window_size(http2.connection_window())
        .max_header_list_size(limits.head.bytes as u32)
        .max_send_buffer_size(MAX_SEND_BUFFER);
    let handshake = builder.handshake(wire).await;
    let (requests, mut connection) = handshake.map_err(|error| not_opened(Some(error), &tally))?;
    poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Err(not_opened(ended.err(), &tally))),
        Poll::Pending if tally.read() < FRAME_HEAD => Poll::Pending,
        Poll::Pending => Poll::Ready(Ok(())),
    })
    .await?;
    let pings = connection.ping_pong();
    let shared = Arc::new(Shared {
        tally,
        n_open: AtomicUsize::new(0),
        used: AtomicBool::new(false),
        retired: AtomicBool::new(false),
        quiet_since: Mutex::new(Instant::now()),
    });
    let (idle, ping) = (limits.idle, http2.ping);
    let driver = Driver { connection, pings, shared: Arc::clone(&shared), route: route.clone(), idle, ping };
    Ok((Connection { requests, shared, route, max_streams: http2.max_streams }, driver))
}

/// Why a connection that stood was not opened. What came and broke HTTP/2's rules was something else; without a byte, nobody knows.
fn not_opened(error: Option<h2::Error>, tally: &Tally) -> ConnectFault {
    let is_foreign = error.as_ref().is_some_and(|error| error.is_go_away() && error.is_library());
    let error = error.map_or_else(closed, io::Error::other);
    match tally.read() {
        0 => ConnectFault::Unopened(error),
        _ if is_foreign => ConnectFault::NotSpoken(error),
        _ => ConnectFault::Io(error),
    }
}

impl Connection {
    /// Whether a stream can ever be opened again: the other side has not said that it leaves, the connection stands, and leads
    /// where it should.
    pub(super) fn takes_streams(&self) -> bool {
        let mut requests = self.requests.clone();
        !self.shared.retired.load(Ordering::Relaxed)
            && self.route.holds()
            && matches!(requests.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }

    /// A place for one stream, if there is room; and whether another stream was there before.
    pub(super) fn place(&self) -> Option<(SendRequest<Bytes>, Place, bool)> {
        let most = self.max_streams.min(self.requests.current_max_send_streams());
        if self.shared.n_open.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.shared.n_open.fetch_add(1, Ordering::Relaxed);
        let used = self.shared.used.swap(true, Ordering::Relaxed);
        Some((self.requests.clone(), Place(Arc::clone(&self.shared)), used))
    }

    pub(super) fn is(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }
}

impl Route {
    fn holds(&self) -> bool {
        self.address.holds(self.stamp)
    }
}

impl Shared {
    pub(super) fn is_idle(&self) -> bool {
        self.n_open.load(Ordering::Relaxed) == 0
    }

    /// When to look again: no later than the moment at which the connection has been idle for long, however soon after
    /// this its last stream ends, and often enough to hear a silence.
    fn next_look(&self, idle: Duration, ping: Duration) -> Instant {
        let soon = Instant::now() + idle.min(ping).min(LOOK_EVERY);
        if self.is_idle() { soon.min(*self.quiet_since.lock() + idle) } else { soon }
    }

    /// Whether anybody ever had a place.
    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Lets no other stream be opened on the connection.
    pub(super) fn retire(&self) {
        self.0.retired.store(true, Ordering::Relaxed);
    }

    /// Bytes written on the connection so far.
    pub(super) fn written(&self) -> u64 {
        self.0.tally.written()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.quiet_since.lock() = Instant::now();
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Drives the connection until it ends, falls silent, or nobody has used it for long.
    pub(super) async fn run(&mut self) -> Stop {
        let Self { connection, pings, shared, route, idle, ping } = self;
        tokio::select! {
            ended = connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to an upstream ended");
                }
                Stop::Ended
            }
            stop = watch(pings, shared, route, *idle, *ping) => stop,
        }
    }

    /// Drives a connection on which no stream will be opened again to its end. One whose other side takes nothing any more,
    /// not even a farewell, is cut.
    pub(super) async fn finish(self) {
        if timeout(FAREWELL, self.connection).await.is_err() {
            tracing::debug!("an upstream takes no farewell: its connection is cut");
        }
    }
}

/// Returns once the connection should be given up.
async fn watch(
    pings: &mut Option<PingPong>,
    shared: &Shared,
    route: &Route,
    idle: Duration,
    ping: Duration,
) -> Stop {
    let (mut n_read, mut silent_since, mut n_pings) = (shared.tally.read(), Instant::now(), 0);
    loop {
        sleep_until(shared.next_look(idle, ping)).await;
        let now = Instant::now();
        if shared.is_idle() && (now >= *shared.quiet_since.lock() + idle || !route.holds()) {
            return Stop::Idle;
        }
        if shared.is_idle() || shared.tally.read() != n_read {
            (n_read, silent_since, n_pings) = (shared.tally.read(), now, 0);
        }
        if now - silent_since < ping || n_pings == MAX_PINGS {
            continue;
        }
        let Some(pings) = pings else { continue };
        if !matches!(timeout(ping, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            tracing::debug!("an upstream does not answer a ping");
            return Stop::Ended;
        }
        (n_read, silent_since, n_pings) = (shared.tally.read(), Instant::now(), n_pings + 1);
    }
}
