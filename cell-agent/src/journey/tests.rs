//! A journey that is cut short at each of its awaits, by a drop and by a panic.

use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use cofferdam_fleet::{Fleet, Trusted};
use cofferdam_model::{Alphabet, TenantId};
use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_telemetry::refusals::Refusals;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::captured::hear;
use crate::rates::Rates;
use crate::routers::Routers;
use crate::rules::layout;

/// How a journey is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Dropped,
    Panicked,
}

/// A future that is cut short once it has waited `waits` times.
struct CutShort<F> {
    inner: Pin<Box<F>>,
    waits: usize,
    cut: Cut,
    /// Let go after the first poll: what the future waits for at first.
    place: Option<Place>,
}

impl<F: Future> Future for CutShort<F> {
    type Output = io::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.inner.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        self.place = None;
        self.waits -= 1;
        match self.cut {
            _ if self.waits > 0 => Poll::Pending,
            Cut::Dropped => Poll::Ready(Err(io::Error::other("cut short"))),
            Cut::Panicked => panic!("cut short"),
        }
    }
}

/// A journey through a cell of one place, which `backend` answers for.
fn journey(backend: SocketAddr) -> Arc<Journey> {
    let fleet = "
fleet: test
cells: [{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]
cell: { max_in_flight: 1, classes: { default: { queue: 1, max_wait: 60s } } }
";
    let fleet = Fleet::parse(fleet, Path::new(".")).unwrap().fleet;
    let compartments = Compartments::new(layout(&fleet).unwrap());
    let rules = Arc::new(ArcSwap::from(Rules::of(fleet)));
    let cell = Cell {
        via: Via::new("cofferdam-test+cell-a").unwrap(),
        metrics: Metrics::register(&mut Registry::default()),
        classifier: Classifier::new(rules, Arc::new(Routers::new(Trusted::loopback()))),
        compartments: compartments.clone(),
        census: Census::register(&mut Registry::default(), "test", NonZeroU32::MAX),
        backend_protocol: BackendProtocol::Auto,
        drills: None,
        last_good: Arc::default(),
        leaving: Leaving::default(),
        body: BodyLimits::default(),
    };
    let upstream = Upstream::new(&backend.to_string(), UpstreamLimits::default());
    let (load, refusals) = (LoadField::new(compartments, Rates::default()), Refusals::default().worker());
    Arc::new(Journey { cell: Arc::new(cell), upstream, load, refusals })
}

/// Answers every request with `ok`.
async fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while stream.read(&mut [0; 4096]).await.is_ok_and(|n| n > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                }
            });
        }
    });
    address
}

/// Sends one request on the journey, to wait for a place that somebody else has, and cuts it short; what the client
/// was answered, and whether the connection's task panicked.
async fn travel(journey: &Arc<Journey>, waits: usize, cut: Cut) -> (String, bool) {
    let tenant = TenantId::parse(b"other", &Alphabet::default()).unwrap();
    let place = Mutex::new(Some(journey.cell.compartments.try_acquire(0, &tenant).unwrap()));
    let (mut client, server) = tokio::io::duplex(4096);
    let journey = Arc::clone(journey);
    let service = service_fn(move |request| {
        let journey = journey.clone();
        let call = async move { journey.call(([127, 0, 0, 1], 1).into(), request).await };
        CutShort { inner: Box::pin(call), waits, cut, place: place.lock().take() }
    });
    let served = tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(server), service));
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncofferdam-tenant: acme\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let panicked = served.await.is_err_and(|error| error.is_panic());
    (answer, panicked)
}

#[tokio::test]
async fn a_journey_that_is_dropped_or_panics_at_any_await_gives_its_place_back() {
    let backend = backend().await;
    for cut in [Cut::Dropped, Cut::Panicked] {
        let journey = journey(backend);
        let mut n_awaits = 0;
        loop {
            let (answer, panicked) = travel(&journey, n_awaits + 1, cut).await;
            let cell = journey.cell.compartments.snapshot();
            let what = format!("{cut:?} at await {}: {answer}", n_awaits + 1);
            assert_eq!((cell.used, cell.classes[0].queued, cell.tenants), (0, 0, 0), "{what}");
            if answer.ends_with("ok") {
                break;
            }
            assert_eq!((answer.as_str(), panicked), ("", cut == Cut::Panicked), "{what}");
            n_awaits += 1;
        }
        assert!(n_awaits >= 3, "the queue, the connection and the answer, not {n_awaits}");
    }
}

/// A subscriber that panics when a span is entered for the second time: a request is polled again, and has its place.
struct PanicsOnce(AtomicUsize);

impl tracing::Subscriber for PanicsOnce {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "request"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::span::Id) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) != 1, "the log is full");
    }

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_panic_within_a_request_is_a_500_with_its_place_back_and_the_connection_goes_on() {
    let _panics = hear(PanicsOnce(AtomicUsize::new(0)));
    let journey = journey(backend().await);
    let listener = cofferdam_proxy::listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = cofferdam_proxy::serve::ServeLimits::default();
    let drain = cofferdam_proxy::drain::Drain::default();
    tokio::spawn(cofferdam_proxy::serve::serve(listener, limits, journey.clone(), drain.watch()));
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    for (status, end) in [("HTTP/1.1 500 ", "}"), ("HTTP/1.1 200 ", "ok")] {
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let more = tokio::time::timeout(Duration::from_secs(10), client.read_buf(&mut answer));
            let n =
                more.await.unwrap_or_else(|_| panic!("{:?} is no answer", String::from_utf8_lossy(&answer)));
            assert!(n.unwrap() > 0);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(status) && answer.contains("endpoint-load-metrics"), "{answer}");
        tokio::task::yield_now().await;
        let cell = journey.cell.compartments.snapshot();
        assert_eq!((cell.used, cell.classes[0].queued, cell.tenants), (0, 0, 0), "{answer}");
    }
}
