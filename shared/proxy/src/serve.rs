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

use http::Version;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::client::{ClientStream, ClientTimes, Turn};
use crate::drain::{Phase, Watch};
use crate::guard::Guarded;
use crate::http2;
pub use crate::service::{ServeLimits, Service};
use crate::sniff::{self, Protocol};
use crate::tunnel;

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
    let protocol = tokio::select! {
        protocol = timeout(limits.idle, sniff::protocol(&stream)) => protocol,
        () = drain.reached(Phase::Draining) => Ok(Ok(Protocol::Http1)),
    };
    let Ok(Ok(protocol)) = protocol else { return };
    let turn = Arc::new(Turn::default());
    let times = ClientTimes { head: limits.head, stall: limits.stall };
    let stream = ClientStream::new(stream, times, Arc::clone(&turn));
    let ended = match protocol {
        Protocol::Http1 => converse(stream, peer, limits, service, &turn, &mut drain).await,
        Protocol::Http2 => {
            // The clock on heads is HTTP/1.1's. The box keeps the many connections of that small.
            let _answering = turn.answering();
            Box::pin(http2::converse(stream, peer, limits, service, &mut drain)).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended with an error");
    }
    tokio::select! {
        () = turn.close() => {}
        () = drain.reached(Phase::Cut) => {}
    }
}

/// Answers request after request of HTTP/1.1, until the client or the drain ends the connection, or a tunnel takes it.
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
            if tunnel::is_switch(&response) {
                answering.switch(&mut response);
            }
            Ok::<_, Infallible>(response.map(|body| Guarded::new(body, answering)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle).max_header_size(limits.max_head_bytes);
    let mut connection = builder.serve_connection(TokioIo::new(stream), answer);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = drain.reached(Phase::Draining) => None,
    };
    match ended {
        Some(ended) => ended?,
        None => {
            turn.drain();
            Pin::new(&mut connection).graceful_shutdown();
            tokio::select! {
                ended = &mut connection => ended?,
                () = drain.reached(Phase::Cut) => return Ok(()),
            }
        }
    }
    if let Some(tunnel) = turn.tunnel() {
        let parts = connection.into_parts();
        if let Some(socket) = parts.io.into_inner().into_socket() {
            Box::pin(tunnel.run(socket, parts.read_buf, drain)).await;
        }
    }
    Ok(())
}
