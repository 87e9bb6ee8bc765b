//! The accept loop and one connection: hyper's server with timers, bounds, and a way to leave in good order.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::client::{ClientStream, ClientTimes, Turn};
use crate::drain::{Phase, Watch};
use crate::guard::Guarded;

/// Bounds on what clients may hold of one worker.
#[derive(Debug, Clone, Copy)]
pub struct ServeLimits {
    /// The most connections; more wait in the kernel's queue.
    pub max_connections: usize,
    /// The longest from the end of one request to the next one's head.
    pub idle: Duration,
    /// The longest from the first byte of a head to its last; then the answer is 408.
    pub head: Duration,
    /// The longest that a client takes nothing of its answer; then its connection is cut.
    pub stall: Duration,
    /// The most bytes of a request's head; more are answered 431, and a longer target 414.
    pub max_head_bytes: usize,
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
pub trait Service: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Send + Unpin + 'static;

    /// Answers one request from `peer`. Dropping the future means that the client went away.
    fn call(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Accepts and serves connections until `drain` says that nothing new is accepted; then returns when every connection
/// has ended, or at the cut.
pub async fn serve<S: Service>(
    listener: std::net::TcpListener,
    limits: ServeLimits,
    service: S,
    mut drain: Watch,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(limits.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = drain.reached(Phase::Draining) => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: neither may end the loop.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (service, drain) = (service.clone(), drain.clone());
        tokio::spawn(async move {
            connection(stream, peer, limits, service, drain).await;
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        _ = places.acquire_many(limits.max_connections as u32) => {}
        () = drain.reached(Phase::Cut) => {}
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

async fn connection<S: Service>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: ServeLimits,
    service: S,
    mut drain: Watch,
) {
    let turn = Arc::new(Turn::default());
    let times = ClientTimes { head: limits.head, stall: limits.stall };
    let stream = ClientStream::new(stream, times, Arc::clone(&turn));
    if let Err(error) = converse(stream, peer, limits, service, &turn, &mut drain).await {
        tracing::debug!(%peer, %error, "connection ended with an error");
    }
    tokio::select! {
        () = turn.close() => {}
        () = drain.reached(Phase::Cut) => {}
    }
}

/// Answers request after request, until the client or the drain ends the connection.
async fn converse<S: Service>(
    stream: ClientStream,
    peer: SocketAddr,
    limits: ServeLimits,
    service: S,
    turn: &Arc<Turn>,
    drain: &mut Watch,
) -> hyper::Result<()> {
    let answer = service_fn(|request| {
        let (service, answering) = (service.clone(), turn.answering());
        async move {
            let mut response = service.call(peer, request).await;
            // The version is each connection's own, whatever an upstream spoke.
            *response.version_mut() = Version::HTTP_11;
            Ok::<_, Infallible>(response.map(|body| Guarded::new(body, answering)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle).max_header_size(limits.max_head_bytes);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = drain.reached(Phase::Draining) => {}
    }
    turn.drain();
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.reached(Phase::Cut) => Ok(()),
    }
}
