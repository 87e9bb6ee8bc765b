//! A backend of gRPC over HTTP/2 that plays by the path, and remembers what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::ANY;

/// A server on loopback, for as long as it lives.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Parts>>>,
    resets: watch::Receiver<Vec<Reason>>,
    tasks: JoinSet<()>,
}

/// What a call's handler knows.
#[derive(Clone)]
struct Play {
    name: &'static str,
    seen: Arc<Mutex<Vec<Parts>>>,
    resets: Arc<watch::Sender<Vec<Reason>>>,
}

impl Backend {
    pub(crate) async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (told, resets) = watch::channel(Vec::new());
        let seen = Arc::<Mutex<Vec<Parts>>>::default();
        let play = Play { name, seen: Arc::clone(&seen), resets: Arc::new(told) };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, play.clone()));
            }
        });
        Self { address, seen, resets, tasks }
    }

    /// The calls so far.
    pub(crate) fn seen(&self) -> Vec<Parts> {
        self.seen.lock().unwrap().clone()
    }

    /// Why streams were reset by the other side.
    pub(crate) async fn reset(&mut self) -> Reason {
        let resets =
            crate::support::within("a reset", self.resets.wait_for(|resets| !resets.is_empty())).await;
        resets.unwrap()[0]
    }

    /// Stops listening and cuts every connection.
    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }
}

async fn serve(stream: TcpStream, play: Play) {
    stream.set_nodelay(true).unwrap();
    // Who connects to see whether anybody is there says nothing.
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        calls.spawn(answer(request, respond, play.clone()));
    }
}

fn fields<const N: usize>(pairs: [(&'static str, &str); N]) -> HeaderMap {
    let pair = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    pairs.map(pair).into_iter().collect()
}

fn head(play: &Play) -> Response<()> {
    let mut response = Response::new(());
    let said = [("content-type", "application/grpc"), ("x-backend", play.name), ("connection-id", "7")];
    *response.headers_mut() = fields(said);
    response
}

/// A call's good end, with trailers that must not all arrive.
fn well(play: &Play) -> HeaderMap {
    fields([
        ("grpc-status", "0"),
        ("x-from", play.name),
        ("cofferdam-refused", "cell"),
        ("cofferdam-cost", "30"),
        ("set-cookie", "a=1"),
        ("content-length", "3"),
    ])
}

/// The next part of a request.
async fn part(body: &mut RecvStream) -> Option<Bytes> {
    let part = body.data().await?.ok()?;
    let _ = body.flow_control().release_capacity(part.len());
    Some(part)
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, play: Play) {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    play.seen.lock().unwrap().push(parts);
    match path.as_str() {
        "/Unary" => {
            let mut whole = Vec::new();
            while let Some(part) = part(&mut body).await {
                whole.extend_from_slice(&part);
            }
            let sum = body.trailers().await.ok().flatten().and_then(|fields| fields.get("x-sum").cloned());
            let mut head = head(&play);
            head.headers_mut().extend(sum.map(|sum| (HeaderName::from_static("x-sum"), sum)));
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data(whole.into(), false).unwrap();
            let _ = stream.send_trailers(well(&play));
        }
        "/Many" => {
            let mut stream = respond.send_response(head(&play), false).unwrap();
            for n in 0..3 {
                stream.send_data(format!("message {n};").into(), false).unwrap();
                tokio::task::yield_now().await;
            }
            let _ = stream.send_trailers(well(&play));
        }
        "/Chat" => {
            let mut stream = respond.send_response(head(&play), false).unwrap();
            while let Some(part) = part(&mut body).await {
                if stream.send_data(part, false).is_err() {
                    return;
                }
            }
            let _ = stream.send_trailers(well(&play));
        }
        "/HeadAlone" => {
            let mut head = head(&play);
            head.headers_mut().extend(fields([
                ("grpc-status", "9"),
                ("grpc-message", "not%20now"),
                ("cofferdam-cost", "5"),
            ]));
            respond.send_response(head, true).unwrap();
        }
        "/Unavailable" => {
            let mut stream = respond.send_response(head(&play), false).unwrap();
            let _ = stream.send_trailers(fields([("grpc-status", "14")]));
        }
        "/Refused" => respond.send_reset(Reason::REFUSED_STREAM),
        "/Begun" => {
            let mut stream = respond.send_response(head(&play), false).unwrap();
            stream.send_data(Bytes::from_static(b"begun"), false).unwrap();
            let reason = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
            play.resets.send_modify(|resets| resets.extend(reason.ok()));
        }
        _ => {
            let reason = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
            play.resets.send_modify(|resets| resets.extend(reason.ok()));
        }
    }
}
