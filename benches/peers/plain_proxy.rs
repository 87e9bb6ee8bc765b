//! What the usual crates give without more: hyper's server, hyper-util's client with its pool, one worker. A tenant keeps its
//! cell, and nothing else is done: no limit, no field, no clock.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use http::uri::{Authority, Parts, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

type ToCells = Client<HttpConnector, Incoming>;
type Body = BoxBody<Bytes, hyper::Error>;

/// Serves on `port` until it is ended, in front of `n` cells whose ports follow `first_cell`.
pub(crate) fn serve(port: u16, first_cell: u16, n: u16) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cells: Vec<Authority> =
            (first_cell..first_cell + n).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
        let cells: &'static [Authority] = cells.leak();
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: ToCells = Client::builder(TokioExecutor::new()).build(connector);
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let client = client.clone();
            let answer = service_fn(move |request| forward(client.clone(), cells, request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
}

async fn forward(
    client: ToCells,
    cells: &[Authority],
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut hasher = DefaultHasher::new();
    request.headers().get("x-tenant-id").hash(&mut hasher);
    let mut parts = Parts::default();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(cells[hasher.finish() as usize % cells.len()].clone());
    parts.path_and_query = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from_parts(parts).unwrap();
    match client.request(request).await {
        Ok(response) => Ok(response.map(BodyExt::boxed)),
        Err(_) => {
            let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            Ok(response)
        }
    }
}
