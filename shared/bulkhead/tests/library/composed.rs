//! The layers together, from the outside in: retry, breaker, rate limit, deadline, bulkhead, call; and behind a real server.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use std::time::Duration;

use bytes::Bytes;
use cofferdam_bulkhead::{
    BoxError, Breaker, BreakerLayer, BreakerPolicy, BreakerState, Bulkhead, BulkheadLayer, BulkheadSnapshot,
    DeadlineLayer, DeadlinePassed, Denied, Open, judge_http,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Empty, StreamBody};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::retry::{Policy, RetryLayer};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use crate::ms;

/// Tries what failed twice more, 100 and 200 ms later, and never what was refused before it was asked.
#[derive(Clone)]
struct Backoff(u32);

impl<B> Policy<Request<u32>, Response<B>, BoxError> for Backoff {
    type Future = Pin<Box<tokio::time::Sleep>>;

    fn retry(
        &mut self,
        _: &mut Request<u32>,
        outcome: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let is_worth_it = match outcome {
            Ok(answer) => answer.status().is_server_error(),
            Err(error) => !Denied::is_cause_of(&**error) && !error.is::<Open>(),
        };
        self.0 += 1;
        (is_worth_it && self.0 <= 2).then(|| Box::pin(sleep(ms(100) * self.0)))
    }

    fn clone_request(&mut self, request: &Request<u32>) -> Option<Request<u32>> {
        Some(request.clone())
    }
}

struct Client {
    service: BoxCloneService<Request<u32>, u16, BoxError>,
    bulkhead: Bulkhead,
    breaker: Breaker,
    /// What the next call does: it fails so often, or hangs.
    failures: Arc<AtomicU32>,
}

const HANGS: u32 = u32::MAX;

/// A dependency behind all of them: 20 calls in a second, one second for each, and five at once.
fn client() -> Client {
    let (bulkhead, breaker) = (Bulkhead::new("payment", 5), Breaker::new(BreakerPolicy::default()));
    let failures = Arc::new(AtomicU32::new(0));
    let dependency = {
        let failures = Arc::clone(&failures);
        service_fn(move |_: Request<u32>| {
            let left = failures.load(Relaxed);
            failures.store(if left == HANGS { left } else { left.saturating_sub(1) }, Relaxed);
            async move {
                if left == HANGS {
                    pending::<()>().await;
                }
                sleep(ms(100)).await;
                let status = if left > 0 { 503 } else { 200 };
                Ok::<_, BoxError>(Response::builder().status(status).body(Empty::<Bytes>::new())?)
            }
        })
    };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Backoff(0)))
        .layer(BreakerLayer::new(breaker.clone(), judge_http))
        // The rate limit cannot be cloned, which the retry needs.
        .buffer(64)
        .rate_limit(20, Duration::from_secs(1))
        .layer(DeadlineLayer::new(Duration::from_secs(1)))
        .layer(BulkheadLayer::new(bulkhead.clone()))
        .service(dependency)
        .map_response(|answer| answer.status().as_u16());
    Client { service: BoxCloneService::new(service), bulkhead, breaker, failures }
}

impl Client {
    fn call(&self) -> BoxFuture<'static, Result<u16, BoxError>> {
        self.service.clone().oneshot(Request::new(0)).boxed()
    }

    /// Calls that were begun 100 ms apart.
    async fn calls(&self, n: usize) -> Vec<JoinHandle<Result<u16, BoxError>>> {
        let mut calls = Vec::new();
        for _ in 0..n {
            calls.push(tokio::spawn(self.call()));
            sleep(ms(100)).await;
        }
        calls
    }

    fn seen(&self) -> BulkheadSnapshot {
        self.bulkhead.snapshot()
    }

    fn state(&self) -> BreakerState {
        self.breaker.counts().state
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_needs_a_place_of_its_own_and_none_follows_at_once() {
    // P15
    let client = client();
    client.failures.store(2, Relaxed);
    let start = Instant::now();
    assert_eq!(client.call().await.unwrap(), 200);
    assert_eq!((client.seen().granted, client.seen().active), (3, 0));
    assert!(start.elapsed() >= ms(600), "three of 100 ms, and 100 and 200 between");
}

#[tokio::test(start_paused = true)]
async fn a_full_bulkhead_is_not_tried_again_and_is_no_failure_of_the_dependency() {
    // P15
    let client = client();
    let places: Vec<_> = (0..5).map(|_| client.bulkhead.try_acquire().unwrap()).collect();
    let start = Instant::now();
    for refused in 1..=10 {
        assert!(Denied::is_cause_of(&*client.call().await.unwrap_err()));
        assert_eq!(client.seen().refused, refused, "one attempt each");
    }
    assert!(start.elapsed() < ms(100));
    assert_eq!(client.state(), BreakerState::Closed);
    drop(places);
    assert_eq!(client.call().await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn timeouts_open_the_breaker_and_then_nothing_needs_a_place() {
    // P15: what hangs keeps no places for ever, and after five outcomes none at all.
    let client = client();
    client.failures.store(HANGS, Relaxed);
    assert!(client.call().await.unwrap_err().is::<DeadlinePassed>());
    assert_eq!(client.seen().granted, 3);
    // The third attempt of the next call finds it open.
    assert!(client.call().await.unwrap_err().is::<Open>());
    assert!(client.call().await.unwrap_err().is::<Open>());
    assert_eq!((client.seen().granted, client.seen().active), (5, 0));
    client.failures.store(0, Relaxed);
    sleep(ms(30_000)).await;
    assert_eq!(client.call().await.unwrap(), 200);
    assert_eq!(client.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_grows_slow_is_seen_by_the_bulkhead_first_then_by_the_breaker_and_not_by_the_rate()
{
    // P11: ten calls in a second all the time, of 20 that the rate limit lets through.
    let client = client();
    for call in client.calls(4).await {
        assert_eq!(call.await.unwrap().unwrap(), 200);
    }
    assert_eq!(client.seen().refused, 0);

    client.failures.store(HANGS, Relaxed);
    let first = client.calls(5).await;
    assert_eq!((client.seen().active, client.seen().refused), (5, 0));
    let sixth = client.call();
    let start = Instant::now();
    assert!(Denied::is_cause_of(&*sixth.await.unwrap_err()));
    assert!(start.elapsed() <= ms(1), "the first call too many, at once, and no rate held it up");
    assert_eq!(client.state(), BreakerState::Closed, "nothing has come back yet");
    sleep(ms(1500)).await;
    assert_eq!(client.state(), BreakerState::Open, "five have been timed out");
    for call in first {
        assert!(call.await.unwrap().is_err());
    }
    assert_eq!(client.seen().active, 0);
}

#[tokio::test]
async fn behind_a_server_idle_connections_hold_no_place_and_a_client_that_leaves_frees_its_own() {
    let bulkhead = Bulkhead::new("streams", 2);
    // A frame, and then nothing for ever.
    let service = BulkheadLayer::new(bulkhead.clone()).layer(service_fn(async |_: Request<_>| {
        let first = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"first")));
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter([first]).chain(stream::pending()))))
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = service.clone();
            let serve = hyper::service::service_fn(move |request| service.clone().oneshot(request));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), serve),
            );
        }
    });
    let mut connections = Vec::new();
    for _ in 0..5 {
        connections.push(TcpStream::connect(address).await.unwrap());
    }
    for connection in &mut connections[..2] {
        connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"first\r\n") {
            assert_ne!(connection.read_buf(&mut answer).await.unwrap(), 0);
        }
    }
    assert_eq!(
        (bulkhead.snapshot().active, bulkhead.snapshot().granted),
        (2, 2),
        "the other three have none"
    );
    drop(connections);
    while bulkhead.snapshot().active > 0 {
        tokio::task::yield_now().await;
    }
    server.abort();
}
