//! A journey that is cut short at each of its awaits, by a drop and by a panic.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use cofferdam_fleet::{Fleet, Trusted};
use cofferdam_model::{Alphabet, TenantId};
use cofferdam_proxy::upstream::UpstreamLimits;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::routers::Routers;

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
fn journey(backend: SocketAddr) -> Journey {
    let fleet = "
fleet: test
cells: [{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]
cell: { max_in_flight: 1, classes: { default: { queue: 1, max_wait: 60s } } }
";
    let fleet = Fleet::parse(fleet, Path::new(".")).unwrap().fleet;
    let compartments = Compartments::new(gate::layout(&fleet.cell).unwrap());
    let classes = fleet.cell.classes.iter().map(|class| &class.name);
    let cell = Cell {
        via: Via::new("cofferdam-test+cell-a").unwrap(),
        metrics: Metrics::register(&mut Registry::default(), classes),
        classifier: Classifier::new(Arc::new(fleet), Arc::new(Routers::new(Trusted::loopback()))),
        compartments: compartments.clone(),
        backend_protocol: BackendProtocol::Auto,
        body: BodyLimits::default(),
    };
    let upstream = Upstream::new(&backend.to_string(), UpstreamLimits::default());
    Journey { cell: Arc::new(cell), upstream, load: Arc::new(LoadField::new(compartments)) }
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
async fn travel(journey: &Journey, waits: usize, cut: Cut) -> (String, bool) {
    let tenant = TenantId::parse(b"other", &Alphabet::default()).unwrap();
    let place = Mutex::new(Some(journey.cell.compartments.try_acquire(0, &tenant).unwrap()));
    let (mut client, server) = tokio::io::duplex(4096);
    let journey = journey.clone();
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
