//! One connection beside the data path: bounds on its heads, its bodies and their times, and who may ask.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{ALLOW, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::door::Door;

/// How long a head may take, and how long a connection may be idle; and how long a body may take then.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take nothing of an answer.
const STALL: Duration = Duration::from_secs(30);

/// The most bytes of a head.
const MAX_HEAD: usize = 16 * 1024;

/// The most bytes of a body.
const MAX_BODY: usize = 64 * 1024;

/// Whom a listener is for.
#[derive(Debug, Clone)]
pub(super) enum Of {
    /// Probes and scrapers: they read, by any name.
    Probes,
    /// Operators.
    Operators(Door),
}

impl Of {
    /// The most connections at once.
    pub(super) fn most_connections(&self) -> usize {
        match self {
            Self::Probes => 256,
            Self::Operators(_) => 64,
        }
    }
}

/// Answers question after question, until the client, a bound or `closing` ends it.
pub(super) async fn serve(stream: TcpStream, routes: Router, of: Of, closing: CancellationToken) {
    // Where this cannot be set, a client that takes nothing holds its place until it goes.
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(STALL));
    let local = stream.local_addr().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |local| local.ip());
    let answers = service_fn(|request| {
        let (routes, of) = (routes.clone(), of.clone());
        async move { Ok::<_, Infallible>(answer(routes, of, local, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_header_size(MAX_HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answers));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection beside the data path ended with an error");
    }
}

async fn answer(mut routes: Router, of: Of, local: IpAddr, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let reads = matches!(head.method, Method::GET | Method::HEAD);
    match &of {
        Of::Probes if !reads => {
            let allow = [(ALLOW, HeaderValue::from_static("GET, HEAD"))];
            return (StatusCode::METHOD_NOT_ALLOWED, allow).into_response();
        }
        Of::Probes => {}
        Of::Operators(door) => {
            if let Err(refused) = door.let_in(&head, local) {
                tracing::debug!(status = %refused.0, "a question to operators' listener is refused");
                return refused.into_response();
            }
        }
    }
    let body = if reads { Ok(Body::empty()) } else { whole(body).await };
    match body {
        Ok(body) => match routes.call(Request::from_parts(head, body)).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Err(refused) => refused.into_response(),
    }
}

/// The whole of a body, which is small and comes soon.
async fn whole(body: Incoming) -> Result<Body, (StatusCode, &'static str)> {
    match timeout(PATIENCE, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(whole)) => Ok(Body::from(whole.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, "a change has at most 65536 bytes\n"))
        }
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body broke off\n")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took too long\n")),
    }
}
