//! A client for one upstream address, for one worker. In HTTP/1.1 a connection is leased for an exchange, owned by it,
//! and given back when its body ends; in HTTP/2 (`http2`) an exchange has a stream of a shared connection.
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
mod answer;
mod body;
mod chunked;
mod clock;
mod connection;
mod exchange;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod http2;
mod limits;
mod logins;
mod names;
mod outbox;
mod pool;
mod serving;
mod switched;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tokio::time::Instant;

pub use self::address::{Address, Stream};
pub use self::answer::UpstreamBody;
use self::body::Http1Body;
pub use self::body::UpstreamBodyError;
use self::connection::Connection;
use self::exchange::Exchange;
pub use self::fault::{AnswerError, ConnectFault, SendFault};
pub use self::head::Head;
pub use self::http2::Http2Limits;
use self::http2::{Http2, Placed};
pub(crate) use self::limits::HELD;
pub use self::limits::{HeadLimits, UpstreamLimits};
pub use self::names::{Endpoint, Lookup, Names, Pace};
use self::pool::{Pool, Pooled};
pub(crate) use self::switched::Switched;
use crate::replay::ReplayBody;

/// One upstream address as one worker sees it. Clones share the pool.
#[derive(Debug, Clone)]
pub struct Upstream {
    address: Address,
    limits: UpstreamLimits,
    pool: Arc<Pool>,
    http2: Http2,
}

/// A connection that one exchange owns until the answer's body ends.
#[derive(Debug)]
pub struct Lease {
    pooled: Box<Pooled>,
    reused: bool,
    pool: Arc<Pool>,
}

/// A stream's place on a connection, for one exchange.
#[derive(Debug)]
pub struct StreamLease(Placed);

impl Upstream {
    /// Connections by TCP to `authority`, which is `host:port`.
    pub fn new(authority: &str, limits: UpstreamLimits) -> Self {
        Self::to(Address::tcp(authority), limits)
    }

    /// Connections to `address`.
    pub fn to(address: Address, limits: UpstreamLimits) -> Self {
        Self::with_http2(address, limits, Http2Limits::default())
    }

    /// The same, with other bounds on connections of HTTP/2 than the usual ones.
    pub fn with_http2(address: Address, limits: UpstreamLimits, http2: Http2Limits) -> Self {
        let http2 = Http2::new(address.clone(), limits, http2);
        let pool = Arc::new(Pool::new(address.clone(), limits));
        Self { address, limits, pool, http2 }
    }

    /// Where the connections go.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The longest silence within an answer that has begun.
    pub fn stream_idle(&self) -> Duration {
        self.limits.stream_idle
    }

    /// Whether a kept connection that broke so long `after` a request was written was most likely closed for its age.
    pub fn is_age(&self, after: Duration) -> bool {
        after < self.limits.aged
    }

    /// A connection: an idle one where there is one, else a new one.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn lease(&self) -> Result<Lease, ConnectFault> {
        match self.reuse(Instant::now()) {
            Some(lease) => Ok(lease),
            None => self.connect().await,
        }
    }

    /// A connection that is idle `now`, if there is one.
    pub fn reuse(&self, now: Instant) -> Option<Lease> {
        self.pool.take(now).map(|pooled| self.leased(pooled, true))
    }

    /// A new connection, whatever is idle.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn connect(&self) -> Result<Lease, ConnectFault> {
        let count = self.pool.count_one().ok_or(ConnectFault::Full(self.limits.max_connections))?;
        let stream = self.address.connect(self.limits.connect).await?;
        let stamp = self.address.stamp(&stream);
        Ok(self.leased(Box::new(Pooled::new(Connection::new(stream), stamp, count)), false))
    }

    /// A stream's place on a connection of HTTP/2; `fresh` asks for a new connection, as far as another may be opened.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn stream(&self, fresh: bool) -> Result<StreamLease, ConnectFault> {
        self.http2.place(fresh).await.map(StreamLease)
    }

    fn leased(&self, pooled: Box<Pooled>, reused: bool) -> Lease {
        Lease { pooled, reused, pool: Arc::clone(&self.pool) }
    }
}

impl Lease {
    /// Whether the connection had served another exchange before.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Gives a new connection to whoever asks for an idle one next. Answers whether it stands.
    pub fn keep(self) -> bool {
        let stands = self.pooled.connection.is_fresh();
        if stands {
            self.pool.put(self.pooled);
        }
        stands
    }

    /// Sends a request and awaits the head of its answer until `deadline`. Dropping the future closes the connection, and so
    /// cancels the exchange.
    ///
    /// # Errors
    ///
    /// [`SendFault`], by what can have reached the other side.
    pub async fn send(
        self,
        head: Head<'_>,
        body: &ReplayBody,
        deadline: Instant,
    ) -> Result<Response<UpstreamBody>, SendFault> {
        let Self { pooled, reused, pool } = self;
        let mut exchange = Exchange::new(pooled, head, body, pool.limits.head);
        // One turn later, so that requests that were read together are written together: the other side then wakes up
        // once for all of them, and waking it is what a write costs most.
        tokio::task::yield_now().await;
        // The other side may have closed in that turn. Of what is found closed now nothing was written, so that whatever the
        // request is, another connection may have it.
        if reused && !exchange.connection().is_fresh() {
            return Err(SendFault::Unsent);
        }
        let (answer, kind) = exchange.answer(deadline).await?;
        let body = Http1Body::new(exchange, &answer, kind, pool);
        Ok(Response::from_parts(answer, body.into()))
    }
}

impl StreamLease {
    /// Whether the connection had served another exchange before.
    pub fn reused(&self) -> bool {
        self.0.reused()
    }

    /// Sends a request and awaits the head of its answer. Dropping the future resets the stream, and so cancels the
    /// exchange.
    ///
    /// # Errors
    ///
    /// [`SendFault`], by what can have been executed.
    pub async fn send(self, head: Head<'_>, body: &ReplayBody) -> Result<Response<UpstreamBody>, SendFault> {
        let answer = self.0.send(head, body).await?;
        Ok(answer.map(UpstreamBody::from))
    }
}
