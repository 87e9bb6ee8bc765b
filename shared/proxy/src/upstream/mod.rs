//! An HTTP/1.1 client for one upstream address, for one worker: a connection is leased for an exchange, owned by it,
//! and given back when its body ends.
//!
//! There is no task and no channel for a connection: the exchange reads and writes the socket in the task of the
//! request that it serves, which is where a proxy's time would otherwise go. The head goes out of the header map into
//! one buffer with whatever of the body is there already; the answer is parsed where it was read, and its fields are
//! slices of that buffer; a body that came with its head is handed on whole, a larger one as it is read. The request's
//! body is sent while the answer is awaited, and goes on being sent while the answer's body is read.
//!
//! The caller learns what it needs for the one rule on retries: whether a connection had been used before, and whether
//! anything of a request can have reached the other side.

mod address;
mod body;
mod chunked;
mod connection;
mod exchange;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod limits;
mod outbox;
mod pool;
mod switched;
mod trailers;
mod upload;

use std::sync::Arc;

use http::Response;

pub use self::address::{Address, Stream};
pub use self::body::{UpstreamBody, UpstreamBodyError};
use self::connection::Connection;
use self::exchange::Exchange;
pub use self::fault::{AnswerError, ConnectFault, SendFault};
pub use self::head::Head;
pub(crate) use self::limits::HELD;
pub use self::limits::UpstreamLimits;
use self::pool::{Pool, Pooled};
pub(crate) use self::switched::Switched;
use crate::replay::ReplayBody;

/// One upstream address as one worker sees it. Clones share the pool.
#[derive(Debug, Clone)]
pub struct Upstream {
    address: Address,
    limits: UpstreamLimits,
    pool: Arc<Pool>,
}

/// A connection that one exchange owns until the answer's body ends.
#[derive(Debug)]
pub struct Lease {
    pooled: Box<Pooled>,
    reused: bool,
    pool: Arc<Pool>,
    limits: UpstreamLimits,
}

impl Upstream {
    /// Connections by TCP to `authority`, which is `host:port`.
    pub fn new(authority: &str, limits: UpstreamLimits) -> Self {
        Self::to(Address::Tcp(authority.into()), limits)
    }

    /// Connections to `address`.
    pub fn to(address: Address, limits: UpstreamLimits) -> Self {
        Self { address, limits, pool: Arc::new(Pool::new(limits)) }
    }

    /// Where the connections go.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A connection: an idle one where there is one, else a new one.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn lease(&self) -> Result<Lease, ConnectFault> {
        match self.pool.take() {
            Some(pooled) => Ok(self.leased(pooled, true)),
            None => self.connect().await,
        }
    }

    /// A new connection, whatever is idle.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn connect(&self) -> Result<Lease, ConnectFault> {
        let count = self.pool.count_one().ok_or(ConnectFault::Full(self.limits.max_connections))?;
        let stream = self.address.connect(self.limits.connect).await?;
        Ok(self.leased(Box::new(Pooled::new(Connection::new(stream), count)), false))
    }

    fn leased(&self, pooled: Box<Pooled>, reused: bool) -> Lease {
        Lease { pooled, reused, pool: Arc::clone(&self.pool), limits: self.limits }
    }
}

impl Lease {
    /// Whether the connection had served another exchange before.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Sends a request and awaits the head of its answer. Dropping the future closes the connection, and so cancels the
    /// exchange.
    ///
    /// # Errors
    ///
    /// [`SendFault`], by what can have reached the other side.
    pub async fn send(self, head: Head<'_>, body: &ReplayBody) -> Result<Response<UpstreamBody>, SendFault> {
        let Self { pooled, pool, limits, .. } = self;
        let mut exchange = Exchange::new(pooled, head, body);
        // One turn later, so that requests that were read together are written together: the other side then wakes up
        // once for all of them, and waking it is what a write costs most.
        tokio::task::yield_now().await;
        let (answer, kind) = exchange.answer().await?;
        let body = UpstreamBody::new(exchange, kind, pool, limits.stream_idle);
        Ok(Response::from_parts(answer, body))
    }
}
