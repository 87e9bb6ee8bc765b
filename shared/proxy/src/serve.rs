//! The accept loop and one connection: hyper's server with timers, bounds, and a way to leave in good order.
//!
//! HTTP/1.1 and HTTP/2 with prior knowledge share the port. A connection that is silent from the start is one that is
//! idle, since clients connect early: it has the idle time, not a shorter one for the first bytes.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::caught;
use crate::client::{Answering, ClientStream, ClientTimes, DRAIN_IDLE, Turn, close_if_quiet};
use crate::drain::{Phase, Watch};
use crate::guard::Guarded;
use crate::http2;
use crate::interim::with_interim;
use crate::service::MAX_FIELDS;
pub use crate::service::{ADDED_FIELDS, ServeLimits, Service};
use crate::sniff::{self, Protocol};
use crate::tunnel;

/// How much of an answer waits for a client of HTTP/1.1 to take it; what is more stays with the cell.
const MAX_BUFFERED: usize = 128 * 1024;

/// Accepts and serves connections until `drain` says that nothing new is accepted; then returns when every connection
/// has ended, or at the cut.
pub async fn serve<S: Service + Clone>(
    listener: std::net::TcpListener,
    limits: ServeLimits,
    service: S,
    mut drain: Watch,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(limits.max_connections));
    let mut failed_last = false;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = drain.reached(Phase::Draining) => break,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: neither may end the loop, or fill the log.
                if !std::mem::replace(&mut failed_last, true) {
                    tracing::warn!(%error, "could not accept a connection");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        failed_last = false;
        // Closed at once: what would be said in one protocol could not be read in another.
        let Some(counted) = service.enter(peer.ip()) else { continue };
        let (service, drain) = (service.clone(), drain.clone());
        tokio::spawn(async move {
            connection(stream, peer, limits, service, drain).await;
            drop((place, counted));
        });
    }
    drop(listener);
    tokio::select! {
        _ = places.acquire_many(limits.max_connections as u32) => {}
        () = drain.reached(Phase::Cut) => {}
    }
    Ok(())
}

/// The same for each of `listeners`, in one worker; its limits are those of each.
pub async fn serve_each<S: Service + Clone>(
    mut listeners: Vec<std::net::TcpListener>,
    limits: ServeLimits,
    service: S,
    drain: Watch,
) -> io::Result<()> {
    let mut others = JoinSet::new();
    for listener in listeners.drain(1.min(listeners.len())..) {
        others.spawn(serve(listener, limits, service.clone(), drain.clone()));
    }
    for listener in listeners {
        serve(listener, limits, service.clone(), drain.clone()).await?;
    }
    others.join_all().await.into_iter().collect()
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

async fn connection<S: Service + Clone>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: ServeLimits,
    service: S,
    mut drain: Watch,
) {
    let protocol = tokio::select! {
        protocol = first_bytes(&stream, limits.idle) => protocol,
        () = silent_through(&mut drain) => return,
    };
    let Some(protocol) = protocol else { return };
    let turn = Arc::new(Turn::default());
    let ended = match protocol {
        Protocol::Http1 => {
            let conversation = converse(stream, peer, &limits, &service, &turn, &mut drain);
            with_interim(turn.next_answer(), conversation).await
        }
        Protocol::Http2 => {
            // The clock on heads is HTTP/1.1's. The box keeps the many connections of that small.
            let _answering = turn.answering(true);
            let stream = with_clocks(stream, &limits, &turn);
            Box::pin(http2::converse(stream, peer, limits, service.clone(), &mut drain)).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended with an error");
    }
    tokio::select! {
        () = turn.close(|status| service.unserved(status)) => {}
        () = drain.reached(Phase::Cut) => {}
    }
}

/// What a connection speaks, unless it is silent for `idle`.
async fn first_bytes(stream: &TcpStream, idle: Duration) -> Option<Protocol> {
    loop {
        match timeout(idle, sniff::protocol(stream)).await {
            Ok(protocol) => return protocol.ok(),
            // Something has come that the runtime has not told of yet.
            Err(_) if !close_if_quiet(stream) => {}
            Err(_) => return None,
        }
    }
}

/// A client's socket with its clocks.
fn with_clocks(stream: TcpStream, limits: &ServeLimits, turn: &Arc<Turn>) -> ClientStream {
    let times = ClientTimes { idle: limits.idle, head: limits.head, stall: limits.stall };
    ClientStream::new(stream, times, Arc::clone(turn))
}

/// Ready once the process has drained for as long as a silent client may take to send what it has begun to.
async fn silent_through(drain: &mut Watch) {
    drain.reached(Phase::Draining).await;
    sleep(DRAIN_IDLE).await;
}

/// The stream has the clocks: the server's own would be a new timer for each request. The stream hears of a client that goes
/// away as well: the server would have a buffer ready for what it does not expect, and ends a connection by it.
fn builder(limits: &ServeLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .half_close(true)
        .max_header_size(limits.max_head_bytes)
        .max_buf_size(MAX_BUFFERED);
    // The server's own bound is this one, and is kept in memory that costs nothing.
    if limits.max_fields != MAX_FIELDS {
        builder.max_headers(limits.max_fields);
    }
    builder
}

/// An answer as its connection sends it.
fn on_its_way<B: Body>(mut response: Response<B>, answering: Answering) -> Response<Guarded<B, Answering>> {
    // The version is each connection's own, whatever an upstream spoke.
    *response.version_mut() = Version::HTTP_11;
    if tunnel::is_switch(&response) {
        answering.switch(&mut response);
    }
    answering.answers();
    if answering.is_last() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| Guarded::new(body, answering))
}

/// Answers request after request of HTTP/1.1, until the client or the drain ends the connection, or a tunnel takes it.
async fn converse<S: Service + Clone>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: &ServeLimits,
    service: &S,
    turn: &Arc<Turn>,
    drain: &mut Watch,
) -> hyper::Result<()> {
    let answer = service_fn(|mut request: Request<Incoming>| {
        let answering = turn.begin(&mut request);
        let answer = caught::answer(service, peer, request);
        answer.map(|response| Ok::<_, Infallible>(on_its_way(response, answering)))
    });
    let stream = TokioIo::new(with_clocks(stream, limits, turn).of_http1());
    let mut connection = builder(limits).serve_connection(stream, answer);
    // Leaving takes three steps: every answer says that it is the last, then the connection is closed on, then cut.
    let mut ended = drain.unless(Phase::Draining, Pin::new(&mut connection)).await;
    if ended.is_none() {
        turn.drain();
        ended = tokio::select! {
            biased;
            ended = &mut connection => Some(ended),
            () = drain.reached(Phase::Cut) => return Ok(()),
            // Who was not told yet that an answer is the last may be sending the next request.
            () = Box::pin(turn.quiet(DRAIN_IDLE)) => None,
        };
    }
    if ended.is_none() {
        Pin::new(&mut connection).graceful_shutdown();
        ended = drain.unless(Phase::Cut, Pin::new(&mut connection)).await;
    }
    let Some(ended) = ended else { return Ok(()) };
    ended?;
    if let Some(tunnel) = turn.tunnel() {
        let parts = connection.into_parts();
        if let Some(socket) = parts.io.into_inner().into_socket() {
            Box::pin(tunnel.run(socket, parts.read_buf, drain)).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn what_is_sent_to_a_client_does_not_wait_for_more() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _, _place) = accept(&listener, &Arc::new(Semaphore::new(1))).await.unwrap();
        assert!(stream.nodelay().unwrap());
    }
}
