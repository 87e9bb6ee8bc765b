//! What serves and what is served: the bounds on clients, and whoever answers their requests.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use crate::census::Counted;
use crate::problem::Problem;

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
    /// The same in HTTP/2, counted as RFC 9113 section 6.5.2 counts: 32 bytes for each field beside its own.
    pub max_list_bytes: usize,
    /// The most fields of a request's head; more are answered 431. Cookies of HTTP/2 are one field.
    pub max_fields: usize,
}

/// The most fields of a head that comes from outside.
pub(crate) const MAX_FIELDS: usize = 100;

/// How many fields a hop may add to a head, such as its own name in Via.
pub const ADDED_FIELDS: usize = 28;

/// How many bytes a hop may add to a head.
pub(crate) const ADDED_BYTES: usize = 8 * 1024;

impl ServeLimits {
    /// The same for a hop behind another one of ours: what that takes of a client, it can pass on with what it adds.
    pub fn behind_a_hop(self) -> Self {
        Self {
            max_head_bytes: self.max_head_bytes + ADDED_BYTES,
            max_list_bytes: self.max_list_bytes + ADDED_BYTES,
            max_fields: self.max_fields + ADDED_FIELDS,
            ..self
        }
    }

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
            idle: Duration::from_secs(75),
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            max_head_bytes: 32 * 1024,
            max_list_bytes: 16 * 1024,
            max_fields: MAX_FIELDS,
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

    /// The answer to a head of which no request is made: it does not parse, has no end, or exceeds a bound.
    fn unserved(&self, status: StatusCode) -> Problem {
        Problem::new(status, "about:blank".to_owned(), status.canonical_reason().unwrap_or_default())
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

    fn unserved(&self, status: StatusCode) -> Problem {
        S::unserved(self, status)
    }
}
