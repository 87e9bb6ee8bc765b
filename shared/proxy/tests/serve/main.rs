//! The server towards clients that are slow, silent or gone, over real sockets.

#![allow(clippy::unwrap_used, reason = "a behaviour that cannot go on has failed")]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_proxy::drain::{Drain, Phase};
use cofferdam_proxy::guard::{End, Guarded, OnEnd};
use cofferdam_proxy::listen;
use cofferdam_proxy::serve::{ServeLimits, Service, serve};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

mod faults;
mod http2;
mod sharing;

const LIMITS: ServeLimits = ServeLimits {
    max_connections: 100,
    idle: Duration::from_secs(5),
    head: Duration::from_millis(300),
    stall: Duration::from_millis(300),
    max_head_bytes: 32 * 1024,
    max_list_bytes: 16 * 1024,
    max_fields: 100,
};

/// This many frames of 64 KiB are left to come, or one small refusal.
enum Frames {
    Large(usize),
    Refusal(bool),
    Never,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match self.get_mut() {
            Self::Large(0) | Self::Refusal(true) => return Poll::Ready(None),
            Self::Never => return Poll::Pending,
            Self::Large(left) => {
                *left -= 1;
                Bytes::from(vec![b'x'; 64 << 10])
            }
            Self::Refusal(told) => {
                *told = true;
                Bytes::from_static(b"refused")
            }
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Refusal(true))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Large(_) | Self::Never => SizeHint::default(),
            Self::Refusal(told) => SizeHint::with_exact(if *told { 0 } else { 7 }),
        }
    }
}

/// Answers without a look at the request's body: `/large` with 64 MiB, `/never` with a body that does not come, anything
/// else with a refusal. `/unread` keeps the request's body and does not answer.
#[derive(Clone, Default)]
struct Refuse {
    n_held: Arc<AtomicUsize>,
}

/// Something that an answer holds until its body has ended.
struct Held(Arc<AtomicUsize>);

impl OnEnd for Held {
    fn on_end(self, _end: End) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Refuse {
    type Body = Guarded<Frames, Held>;

    async fn call(&self, _peer: SocketAddr, request: Request<Incoming>) -> Response<Self::Body> {
        let body = match request.uri().path() {
            "/unread" => {
                let _kept = request;
                std::future::pending().await
            }
            "/large" => Frames::Large(1024),
            "/never" => Frames::Never,
            _ => Frames::Refusal(false),
        };
        let refused = matches!(body, Frames::Refusal(_));
        self.n_held.fetch_add(1, Ordering::SeqCst);
        let mut response = Response::new(Guarded::new(body, Held(Arc::clone(&self.n_held))));
        *response.status_mut() = if refused { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        response
    }
}

struct Server {
    address: SocketAddr,
    service: Refuse,
    drain: Drain,
}

fn start() -> Server {
    start_with(LIMITS)
}

fn start_with(limits: ServeLimits) -> Server {
    let listener = listen::one((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (address, service, drain) = (listener.local_addr().unwrap(), Refuse::default(), Drain::default());
    tokio::spawn(serve(listener, limits, service.clone(), drain.watch()));
    Server { address, service, drain }
}

impl Server {
    /// Waits until `n` answers hold something.
    async fn holds(&self, n: usize) {
        let until = async {
            while self.service.n_held.load(Ordering::SeqCst) != n {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(5), until).await.unwrap_or_else(|_| panic!("{n} answers are held"));
    }
}

/// All that the server sends until it closes.
async fn rest(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(10), client.read_to_end(&mut bytes)).await.expect("it closes").unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_head_that_never_ends_is_answered_408() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhos").await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn idle_time_between_requests_is_not_a_heads_time() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
        // What is left of the answer is read, and then nothing is sent for longer than a head may take.
        let mut scratch = [0; 1024];
        let end = tokio::time::Instant::now() + LIMITS.head * 2;
        while let Ok(read) = tokio::time::timeout_at(end, client.read(&mut scratch)).await {
            assert_ne!(read.unwrap(), 0, "the connection is kept");
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_connection_and_what_its_answer_held() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    server.holds(1).await;
    server.holds(0).await;
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_body_arrives_all_the_same() {
    let server = start();
    for _ in 0..50 {
        let (mut reader, mut writer) = TcpStream::connect(server.address).await.unwrap().into_split();
        let upload = tokio::spawn(async move {
            writer.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n").await?;
            writer.write_all(&vec![b'x'; 200_000]).await
        });
        let mut answer = Vec::new();
        let read =
            timeout(Duration::from_secs(10), reader.read_to_end(&mut answer)).await.expect("it closes");
        assert!(read.is_ok(), "no reset overtakes the answer: {read:?}");
        assert!(answer.starts_with(b"HTTP/1.1 503 ") && answer.ends_with(b"refused"));
        let _ = upload.await.unwrap();
    }
}

#[tokio::test]
async fn a_drain_gives_half_a_head_a_second_at_most() {
    let limits = ServeLimits { head: Duration::from_secs(60), idle: Duration::from_secs(60), ..LIMITS };
    let listener = listen::one((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (address, drain) = (listener.local_addr().unwrap(), Drain::default());
    let served = tokio::spawn(serve(listener, limits, Refuse::default(), drain.watch()));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HT").await.unwrap();
    sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    drain.advance(Phase::Draining);
    timeout(Duration::from_secs(10), served).await.expect("the drain ends").unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_drain_closes_idle_connections() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    server.drain.advance(Phase::Draining);
    assert!(rest(&mut client).await.ends_with("refused"));
}

#[tokio::test]
async fn a_request_behind_an_answer_that_began_before_the_drain_is_answered() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut head = [0; 12];
    client.read_exact(&mut head).await.unwrap();
    server.drain.advance(Phase::Draining);
    let (mut tail, mut block) = (Vec::new(), vec![0; 1 << 20]);
    while !tail.ends_with(b"0\r\n\r\n") {
        let n = timeout(Duration::from_secs(5), client.read(&mut block)).await.unwrap().unwrap();
        tail.extend_from_slice(&block[..n]);
        tail.drain(..tail.len().saturating_sub(5));
    }
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let answer = rest(&mut client).await;
    assert!(answer.contains("connection: close") && answer.ends_with("refused"), "{answer}");
}
