//! A request that panics, beside others that do not; and who is let in.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::census::{Census, Counted};
use cofferdam_proxy::drain::Drain;
use cofferdam_proxy::grpc;
use cofferdam_proxy::listen;
use cofferdam_proxy::serve::{ServeLimits, Service, serve};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// `/panic` panics at once, `/late` behind an await; `/wait` waits for a permit; the rest is answered.
#[derive(Clone)]
struct Faulty {
    census: Census,
    held: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Faulty {
    type Body = Full<Bytes>;

    async fn call(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.held.fetch_add(1, Ordering::SeqCst);
        let _held = Held(Arc::clone(&self.held));
        match request.uri().path() {
            "/panic" => panic!("at once"),
            "/late" => {
                tokio::task::yield_now().await;
                panic!("late")
            }
            "/wait" => drop(self.go.acquire().await.unwrap()),
            _ => {}
        }
        Response::new(Full::from("fine"))
    }

    fn enter(&self, peer: IpAddr) -> Option<Counted> {
        self.census.enter(peer, false)
    }

    fn panicked(&self, is_grpc: bool) -> Option<Response<Full<Bytes>>> {
        self.census.panicked();
        let mut response = Response::new(Full::from("fault"));
        if is_grpc {
            response.headers_mut().insert(grpc::STATUS, HeaderValue::from_static("13"));
            return Some(response);
        }
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        Some(response)
    }
}

fn start(max_per_address: u32) -> (SocketAddr, Faulty, Registry) {
    let listener = listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let mut registry = Registry::default();
    let census = Census::register(&mut registry, "test", NonZeroU32::new(max_per_address).unwrap());
    let faulty = Faulty { census, held: Arc::default(), go: Arc::new(Semaphore::new(0)) };
    tokio::spawn(serve(listener, ServeLimits::default(), faulty.clone(), Drain::default().watch()));
    (address, faulty, registry)
}

/// Asks on a connection that stays open, and reads until what the answer ends with.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"fine") && !answer.ends_with(b"fault") {
        let read = timeout(Duration::from_secs(20), stream.read_buf(&mut answer)).await;
        assert!(read.unwrap().unwrap() > 0, "{}", String::from_utf8_lossy(&answer));
    }
    String::from_utf8(answer).unwrap()
}

fn metrics(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

#[tokio::test]
async fn a_panic_is_a_500_and_harms_no_other_request() {
    let (address, faulty, registry) = start(100);
    let mut waiting = TcpStream::connect(address).await.unwrap();
    waiting.write_all(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    for path in ["/panic", "/late"] {
        assert!(ask(&mut stream, path).await.starts_with("HTTP/1.1 500 "), "{path}");
        assert!(ask(&mut stream, "/").await.starts_with("HTTP/1.1 200 "), "the same connection");
    }
    faulty.go.add_permits(1);
    assert!(answer(&mut waiting).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(faulty.held.load(Ordering::SeqCst), 0);
    assert!(metrics(&registry).contains("test_panics_total 2"));
}

#[tokio::test]
async fn a_stream_that_panics_is_a_500_and_harms_no_other_stream() {
    let (address, faulty, _registry) = start(100);
    let stream = TcpStream::connect(address).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut requests = requests.ready().await.unwrap();
    let mut ask = |path: &str| {
        let request = Request::builder().uri(format!("http://a{path}")).body(()).unwrap();
        requests.send_request(request, true).unwrap().0
    };
    let (waiting, panics, late) = (ask("/wait"), ask("/panic"), ask("/late"));
    for panics in [panics, late] {
        assert_eq!(panics.await.unwrap().status(), 500);
    }
    let call = Request::post("http://a/panic").header("content-type", "application/grpc").body(()).unwrap();
    let refused = requests.send_request(call, true).unwrap().0.await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["grpc-status"]), (200, &HeaderValue::from(13)));
    faulty.go.add_permits(1);
    assert_eq!(waiting.await.unwrap().status(), 200);
    let request = Request::builder().uri("http://a/").body(()).unwrap();
    assert_eq!(requests.send_request(request, true).unwrap().0.await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_address_that_has_its_share_of_connections_is_closed_on_until_one_ends() {
    let (address, _faulty, registry) = start(2);
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut first, "/").await.ends_with("fine") && ask(&mut second, "/").await.ends_with("fine"));
    let mut third = TcpStream::connect(address).await.unwrap();
    assert!(matches!(third.read(&mut [0; 1]).await, Ok(0) | Err(_)), "closed unanswered");
    let text = metrics(&registry);
    assert!(text.contains(r#"test_connections_refused_total{reason="address"} 1"#), "{text}");
    assert!(text.contains("test_connections_open 2"), "{text}");
    drop(first);
    let served = async {
        loop {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            let mut answer = Vec::new();
            if stream.write_all(request).await.is_ok()
                && stream.read_to_end(&mut answer).await.is_ok_and(|n| n > 0)
            {
                return answer;
            }
        }
    };
    assert!(timeout(Duration::from_secs(20), served).await.unwrap().ends_with(b"fine"));
}
