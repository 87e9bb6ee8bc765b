//! A client of HTTP/2 with prior knowledge that sees what a stream sees: its frames, its window, its reset.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::within;

/// One connection.
pub(crate) struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// An answer that came to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = within("connect", TcpStream::connect(to)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (requests, connection) = within("a handshake", h2::client::handshake(stream)).await.unwrap();
        Self { requests, connection: tokio::spawn(connection) }
    }

    /// Begins a request, once the server has room for another stream.
    pub(crate) async fn begin(
        &mut self,
        request: Request<()>,
        ends: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut ready = within("room for a stream", self.requests.clone().ready()).await.unwrap();
        ready.send_request(request, ends).unwrap()
    }

    /// A request without a body, and its answer.
    pub(crate) async fn ask(&mut self, request: Request<()>) -> Result<Answer, h2::Error> {
        let (answer, _) = self.begin(request, true).await;
        finish(answer).await
    }

    /// How the connection ended, once the server has ended it.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        let Self { requests, connection } = self;
        let ended = within("the end of the connection", connection).await.unwrap();
        drop(requests);
        ended
    }

    /// Closes the connection, whatever is on it.
    pub(crate) fn cut(self) {
        self.connection.abort();
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status().as_u16()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last part of a problem's type.
    pub(crate) fn problem(&self) -> String {
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status());
        problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }
}

/// The answer to its end, or the reset that came instead.
pub(crate) async fn finish(answer: ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, mut stream) = within("a head", answer).await?.into_parts();
    let (body, trailers) = rest(&mut stream).await?;
    Ok(Answer { head: Response::from_parts(head, ()), body, trailers })
}

/// What is left of a body, and its trailers.
pub(crate) async fn rest(stream: &mut RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut body = Vec::new();
    while let Some(part) = within("a part", stream.data()).await {
        let part = part?;
        stream.flow_control().release_capacity(part.len())?;
        body.extend_from_slice(&part);
    }
    Ok((body, within("the end of a stream", stream.trailers()).await?))
}

/// Sends a part of a body as the other side makes room; what it does not want any more is left.
pub(crate) async fn send(
    stream: &mut SendStream<Bytes>,
    mut part: Bytes,
    ends: bool,
) -> Result<(), h2::Error> {
    while !part.is_empty() {
        stream.reserve_capacity(part.len());
        let Some(room) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
        let room = room?;
        let now = part.split_to(room.min(part.len()));
        stream.send_data(now, ends && part.is_empty())?;
    }
    Ok(())
}

/// A request for a tenant, by the header that this machine is trusted with.
pub(crate) fn request(method: Method, path: &str, tenant: &str) -> Request<()> {
    let uri = format!("http://test.example{path}");
    Request::builder().method(method).uri(uri).header("x-tenant-id", tenant).body(()).unwrap()
}

pub(crate) fn get(path: &str, tenant: &str) -> Request<()> {
    request(Method::GET, path, tenant)
}

/// Adds a field.
pub(crate) fn with(mut request: Request<()>, name: &'static str, value: &'static str) -> Request<()> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// Why a stream was reset.
#[track_caller]
pub(crate) fn reset<T: std::fmt::Debug>(result: Result<T, h2::Error>) -> Reason {
    let error = result.unwrap_err();
    assert!(error.is_reset() && error.is_remote(), "{error:?}");
    error.reason().unwrap()
}
