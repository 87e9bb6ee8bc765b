//! What serves and what is served: the bounds on clients, and whoever answers their requests.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

use crate::census::Counted;

/// Bounds on what clients may hold of one worker.
#[derive(Debug, Clone, Copy)]
pub struct ServeLimits {
    /// The most connections; more wait in the kernel's queue.
    pub max_connections: usize,
    /// The longest from the end of one request to the next one's head; in HTTP/2, the longest without a stream.
    pub idle: Duration,
    /// The longest from the first byte of a head to its last; then the answer is 408.
    pub head: Duration,
    /// The longest that a client takes nothing of its answer; then its connection is cut, or its stream. In HTTP/2
    /// also the longest silence before a ping, and the time to answer that.
    pub stall: Duration,
    /// The most bytes of a request's head in HTTP/1.1; more are answered 431.
    pub max_head_bytes: usize,
}

impl ServeLimits {
    /// The same, where all of `n_loops` accept loops together have at most `most` connections.
    pub fn sharing(self, most: Option<NonZeroU32>, n_loops: usize) -> Self {
        let share = most.map(|most| (most.get() as usize).div_ceil(n_loops.max(1)));
        Self { max_connections: share.unwrap_or(self.max_connections), ..self }
    }
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            max_connections: 16_384,
            idle: Duration::from_secs(60),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            max_head_bytes: 32 * 1024,
        }
    }
}

/// What answers the requests of a listener.
pub trait Service: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Send + Unpin + 'static;

    /// Answers one request from `peer`. Dropping the future means that the client went away.
    fn call(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Lets a connection in and counts it, or refuses it: then it is closed unanswered. By default each is let in.
    fn enter(&self, _peer: IpAddr) -> Option<Counted> {
        Some(Counted::default())
    }

    /// The answer to a request whose call panicked, in gRPC's own way where it was one of gRPC; by default there is
    /// none, and its connection is lost.
    fn panicked(&self, _is_grpc: bool) -> Option<Response<Self::Body>> {
        None
    }
}

/// One service for every connection of a worker: to clone it costs the same whatever it is made of.
impl<S: Service> Service for Arc<S> {
    type Body = S::Body;

    fn call(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send {
        S::call(self, peer, request)
    }

    fn enter(&self, peer: IpAddr) -> Option<Counted> {
        S::enter(self, peer)
    }

    fn panicked(&self, is_grpc: bool) -> Option<Response<Self::Body>> {
        S::panicked(self, is_grpc)
    }
}
