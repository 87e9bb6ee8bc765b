//! The connections of one worker to one address. A new one is opened only where the others have no room, and once,
//! however many ask meanwhile; it is opened in a task of its own, so that one who gives up fails nobody else.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use h2::client::SendRequest;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::connection::{self, Connection, Driver, Place, Shared, Stop};
use super::limits::Http2Limits;
use crate::upstream::address::Address;
use crate::upstream::fault::{ConnectFault, closed};
use crate::upstream::limits::UpstreamLimits;

/// The connections to one address.
#[derive(Debug)]
pub(super) struct Pool {
    address: Address,
    limits: UpstreamLimits,
    http2: Http2Limits,
    /// Whether HTTP/2 was spoken at the last connection that told.
    spoken: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those that take streams, oldest first.
    connections: Vec<Connection>,
    /// Connections that stand, those included that take no more streams.
    n_open: usize,
    opening: Option<watch::Receiver<Opened>>,
}

/// How the opening of a connection has ended; `None` while it has not.
type Opened = Option<Result<Arc<Shared>, Failure>>;

/// Why a connection could not be opened, for everybody who waited for it.
#[derive(Debug, Clone)]
enum Failure {
    Timeout,
    Io(Arc<io::Error>),
    NotSpoken(Arc<io::Error>),
    Unopened(Arc<io::Error>),
}

/// A place on a connection, and how to use it.
pub(super) type Placed = (SendRequest<Bytes>, Place, bool);

impl Pool {
    pub(super) fn new(address: Address, limits: UpstreamLimits, http2: Http2Limits) -> Self {
        Self { address, limits, http2, spoken: AtomicBool::new(false), state: Mutex::default() }
    }

    /// A place on a connection: the oldest that has room, or else a new one. `fresh` asks for a new one first.
    pub(super) async fn place(self: &Arc<Self>, fresh: bool) -> Result<Placed, ConnectFault> {
        let mut wants_new = fresh;
        let mut opened: Option<Arc<Shared>> = None;
        loop {
            let opening = {
                let mut state = self.state.lock();
                let found = if wants_new { None } else { state.place(fresh) };
                if found.is_none()
                    && let Some(opened) = opened.filter(|opened| !opened.was_used())
                {
                    // The next one would do no better: opening on and on would be a storm.
                    state.connections.retain(|connection| !connection.is(&opened));
                    return Err(ConnectFault::Io(io::Error::other("a new connection takes no stream")));
                }
                match (found, &state.opening) {
                    (Some(placed), _) => return Ok(placed),
                    (None, Some(opening)) => opening.clone(),
                    (None, None) if state.n_open < self.limits.max_connections => self.open(&mut state),
                    // No more may be opened: what there is has to do.
                    (None, None) => match state.place(fresh) {
                        Some(placed) => return Ok(placed),
                        None => return Err(ConnectFault::Full(self.limits.max_connections)),
                    },
                }
            };
            opened = Some(self.opened(opening).await?);
            wants_new = false;
        }
    }

    /// Waits for a connection that is being opened.
    async fn opened(&self, mut opening: watch::Receiver<Opened>) -> Result<Arc<Shared>, ConnectFault> {
        let outcome = opening.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Ok(connection))) => Ok(connection),
            Ok(Some(Err(failure))) => Err(failure.fault(self.limits, self.spoken.load(Ordering::Relaxed))),
            // The opener is gone without a word.
            Ok(None) | Err(_) => Err(ConnectFault::Io(closed())),
        }
    }

    fn open(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Opened> {
        let (told, opening) = watch::channel(None);
        state.opening = Some(opening.clone());
        state.n_open += 1;
        let opener = Opener { pool: Arc::downgrade(self) };
        let (address, limits, http2) = (self.address.clone(), self.limits, self.http2);
        tokio::spawn(async move {
            let opened = connection::open(&address, limits, http2).await;
            told.send_replace(Some(opener.end(opened)));
        });
        opening
    }

    /// Takes a connection out, so that nobody gets a place on it; `false` where it is idle no more.
    fn retire(&self, shared: &Arc<Shared>, idle_only: bool) -> bool {
        let mut state = self.state.lock();
        let retires = !idle_only || shared.is_idle();
        if retires {
            state.connections.retain(|connection| !connection.is(shared));
        }
        retires
    }

    fn closed_one(&self) {
        self.state.lock().n_open -= 1;
    }
}

impl State {
    /// A place; those that take no more streams are let go on the way.
    fn place(&mut self, newest: bool) -> Option<Placed> {
        self.connections.retain(Connection::takes_streams);
        match newest {
            true => self.connections.iter().rev().find_map(Connection::place),
            false => self.connections.iter().find_map(Connection::place),
        }
    }
}

/// The opening of one connection. Dropped before its end, it makes way for another.
struct Opener {
    pool: Weak<Pool>,
}

impl Opener {
    fn end(mut self, opened: Result<(Connection, Driver), ConnectFault>) -> Result<Arc<Shared>, Failure> {
        let pool = self.pool.upgrade();
        let spoken = match &opened {
            Ok(_) => Some(true),
            Err(ConnectFault::NotSpoken(_)) => Some(false),
            Err(_) => None,
        };
        if let (Some(pool), Some(spoken)) = (&pool, spoken) {
            pool.spoken.store(spoken, Ordering::Relaxed);
        }
        let (connection, driver) = opened.map_err(Failure::of)?;
        let shared = Arc::clone(driver.shared());
        let Some(pool) = pool else { return Ok(shared) };
        let mut state = pool.state.lock();
        state.connections.push(connection);
        state.opening = None;
        // What the opening counted is the connection's from here on.
        tokio::spawn(drive(driver, std::mem::take(&mut self.pool)));
        Ok(shared)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let mut state = pool.state.lock();
            state.opening = None;
            state.n_open -= 1;
        }
    }
}

async fn drive(mut driver: Driver, pool: Weak<Pool>) {
    let shared = Arc::clone(driver.shared());
    let retire = |idle_only| pool.upgrade().is_none_or(|pool| pool.retire(&shared, idle_only));
    loop {
        match driver.run().await {
            Stop::Ended => {
                retire(false);
                drop(driver);
                break;
            }
            Stop::Idle if retire(true) => {
                driver.finish().await;
                break;
            }
            Stop::Idle => {}
        }
    }
    if let Some(pool) = pool.upgrade() {
        pool.closed_one();
    }
}

impl Failure {
    fn of(fault: ConnectFault) -> Self {
        match fault {
            ConnectFault::Io(error) => Self::Io(Arc::new(error)),
            ConnectFault::NotSpoken(error) => Self::NotSpoken(Arc::new(error)),
            ConnectFault::Unopened(error) => Self::Unopened(Arc::new(error)),
            ConnectFault::Timeout(_) | ConnectFault::Full(_) => Self::Timeout,
        }
    }

    /// What is told of it. Where HTTP/2 `was_spoken` before, a connection on which it was not opened is a failure like another.
    fn fault(self, limits: UpstreamLimits, was_spoken: bool) -> ConnectFault {
        match self {
            Self::Timeout => ConnectFault::Timeout(limits.connect),
            Self::Unopened(error) if was_spoken && error.kind() == io::ErrorKind::TimedOut => {
                ConnectFault::Timeout(limits.connect)
            }
            Self::Unopened(error) if was_spoken => ConnectFault::Io(again(&error)),
            Self::Io(error) => ConnectFault::Io(again(&error)),
            Self::NotSpoken(error) => ConnectFault::NotSpoken(again(&error)),
            Self::Unopened(error) => ConnectFault::Unopened(again(&error)),
        }
    }
}

/// The same error for another who waited.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
