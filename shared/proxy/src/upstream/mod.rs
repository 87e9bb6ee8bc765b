//! Connections to one upstream address, for one worker: leased for an exchange, given back when its body ends.
//!
//! The interface is what a caller needs to obey the one rule on retries: whether a connection had been used before,
//! and whether anything of a request can have reached the other side. Behind it stands hyper's client connection;
//! it has an own task for each connection, and that is the only thing a faster client has to replace.

mod body;
mod limits;
mod pool;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use self::body::{UpstreamBody, UpstreamBodyError};
pub use self::limits::UpstreamLimits;
use self::pool::{Pool, Pooled};
use crate::replay::ReplayBody;

/// The longest that an idle connection may take to become ready.
const READY: Duration = Duration::from_millis(10);

/// A request's head as it goes upstream, in origin form; `fields` has a Host.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path and query, byte for byte as the client sent them.
    pub target: &'a PathAndQuery,
    /// The fields, hop-by-hop ones already gone.
    pub fields: &'a HeaderMap,
}

/// Why there is no connection. Nothing has reached the other side.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    /// Every connection that this worker may have is in use.
    #[error("{0} connections are in use")]
    Full(usize),
    /// No answer to the attempt to connect.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// Refused, unreachable, or a name that does not resolve.
    #[error("could not connect")]
    Io(#[source] io::Error),
}

/// Why there is no answer on a connection that stood.
#[derive(Debug, thiserror::Error)]
pub enum SendFault {
    /// The connection was found closed before anything of the request was written.
    #[error("connection closed before the request was written")]
    Unsent,
    /// The connection died before an answer; the request may have been executed.
    #[error("connection lost before an answer")]
    Lost(#[source] hyper::Error),
    /// The other side answered with something that is not HTTP, or not what an answer may be.
    #[error("answer is not valid HTTP")]
    Malformed(#[source] Option<hyper::Error>),
    /// The request's own body failed: the client's doing.
    #[error("request body failed")]
    RequestBody(#[source] hyper::Error),
}

/// One upstream address as one worker sees it.
#[derive(Debug, Clone)]
pub struct Upstream {
    authority: Arc<str>,
    limits: UpstreamLimits,
    pool: Arc<Pool>,
}

/// A connection that this exchange owns until the answer's body ends.
#[derive(Debug)]
pub struct Lease {
    connection: Pooled,
    reused: bool,
    pool: Arc<Pool>,
    limits: UpstreamLimits,
}

impl Upstream {
    /// Connections to `authority`, which is `host:port`.
    pub fn new(authority: &str, limits: UpstreamLimits) -> Self {
        Self { authority: authority.into(), limits, pool: Arc::new(Pool::new(limits)) }
    }

    /// The address, as `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A connection: an idle one where there is one, else a new one.
    pub async fn lease(&self) -> Result<Lease, ConnectFault> {
        while let Some(mut connection) = self.pool.take() {
            // An answer that just ended leaves its connection one turn of its task away from ready. One that came
            // before its request was taken in leaves it stuck, for as long as the other side likes.
            if timeout(READY, connection.sender.ready()).await.is_ok_and(|ready| ready.is_ok()) {
                return Ok(self.leased(connection, true));
            }
        }
        self.connect().await
    }

    /// A new connection, whatever is idle.
    pub async fn connect(&self) -> Result<Lease, ConnectFault> {
        let count = self.pool.count_one().ok_or(ConnectFault::Full(self.limits.max_connections))?;
        let connecting = TcpStream::connect(&*self.authority);
        let stream = match timeout(self.limits.connect, connecting).await {
            Err(_) => return Err(ConnectFault::Timeout(self.limits.connect)),
            Ok(stream) => stream.map_err(ConnectFault::Io)?,
        };
        stream.set_nodelay(true).map_err(ConnectFault::Io)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| ConnectFault::Io(io::Error::other(error)))?;
        tokio::spawn(async move {
            // What goes wrong on a connection is told to the exchange that owns it.
            let _ = connection.await;
        });
        Ok(self.leased(Pooled { sender, _count: count }, false))
    }

    fn leased(&self, connection: Pooled, reused: bool) -> Lease {
        Lease { connection, reused, pool: Arc::clone(&self.pool), limits: self.limits }
    }
}

impl Lease {
    /// Whether the connection had served another exchange before.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Sends a request and awaits the head of its answer. Dropping the future cancels the exchange and closes the
    /// connection.
    pub async fn send(
        mut self,
        head: Head<'_>,
        body: &ReplayBody,
    ) -> Result<Response<UpstreamBody>, SendFault> {
        let mut request = Request::new(body.attempt());
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = Uri::from(head.target.clone());
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = head.fields.clone();
        match self.connection.sender.try_send_request(request).await {
            Ok(mut response) => {
                check(&mut response)?;
                let (parts, incoming) = response.into_parts();
                let back = (self.pool, self.connection);
                let body = UpstreamBody::new(incoming, back, body.clone(), self.limits.body_idle);
                Ok(Response::from_parts(parts, body))
            }
            Err(mut refused) => match refused.take_message() {
                Some(_) => Err(SendFault::Unsent),
                None => Err(classify(refused.into_error())),
            },
        }
    }
}

/// What hyper lets pass. An interim answer cannot be the last, since nothing was upgraded. A length beside a transfer
/// coding is dropped, since the coding frames the body (RFC 9112 section 6.3); a coding other than chunked would be
/// taken off the head and left on the body.
fn check(response: &mut Response<Incoming>) -> Result<(), SendFault> {
    if response.status().is_informational() {
        return Err(SendFault::Malformed(None));
    }
    let mut codings = response.headers().get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(SendFault::Malformed(None));
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    Ok(())
}

fn classify(error: hyper::Error) -> SendFault {
    if error.is_parse() {
        SendFault::Malformed(Some(error))
    } else if error.is_user() {
        SendFault::RequestBody(error)
    } else {
        SendFault::Lost(error)
    }
}
