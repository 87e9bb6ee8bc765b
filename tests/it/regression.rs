//! Faults that were here once.

use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_router::Settings;

use crate::support::files::{PINS, alone, fleet};
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Refusing, Scripted};

/// A refusal's body is not sent to HEAD, and so was dropped unread: the request counted as given up by its client.
#[tokio::test]
async fn a_refused_head_request_counts_as_refused() {
    let down = Refusing::new();
    let plan = "plans: { p: { sustained: 1/h, burst: 1, max_in_flight: 9 } }\ntenant: { unknown: p }\n";
    let router = TestRouter::start(&alone(down.address, plan));
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("HEAD", "/", "acme", "")).await;
    assert_eq!(client.answer_to(true).await.status(), 503);
    router.idle().await;
    let metrics = router.metrics().await;
    let requests = |outcome: &str| metrics.sum("cofferdam_router_requests_total", &[outcome]);
    assert_eq!((requests("outcome=\"failed\""), requests("outcome=\"client_gone\"")), (1.0, 0.0));
}

/// A worker that has all the connections it may have said that the cell was down.
#[tokio::test]
async fn a_pool_that_is_exhausted_says_nothing_of_its_cell() {
    let cell = Scripted::start(|_| Play::Hang).await;
    let second = Scripted::named("second").await;
    let upstream = UpstreamLimits { max_connections: 1, ..UpstreamLimits::default() };
    let text = fleet(&[cell.address, second.address], PINS);
    let router = TestRouter::with(&text, Settings { upstream, ..settings() }, 1);
    let mut held = raw::Client::connect(router.data).await;
    held.send(get("/", "acme")).await;
    router.in_flight(1).await;
    assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    assert_eq!(router.admin("/cells").await[0]["up"], true);
}
