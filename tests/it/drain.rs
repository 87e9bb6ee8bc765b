//! Leaving in good order: what is in flight ends, and nothing else is begun.

use std::time::{Duration, Instant};

use cofferdam_router::Settings;

use crate::support::files::alone;
use crate::support::processes::probe;
use crate::support::raw::{self, get};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};
use crate::support::{eventually, within};

async fn cell() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        "/slow" => Play::Late(Duration::from_millis(500), ok("slow")),
        _ => Play::Answer(ok("fast")),
    })
    .await
}

fn start(cell: &Scripted, grace: Duration, deadline: Duration) -> TestRouter {
    let text = alone(cell.address, "");
    let settings = Settings { drain_grace: grace, drain_deadline: deadline, ..settings() };
    TestRouter::with(&text, settings, 2)
}

#[tokio::test]
async fn what_is_in_flight_ends_and_idle_connections_are_closed() {
    let cell = cell().await;
    let router = start(&cell, Duration::ZERO, Duration::from_secs(10));
    let mut idle = raw::Client::connect(router.data).await;
    assert_eq!(idle.ask(get("/", "acme")).await.status(), 200);
    let mut busy = raw::Client::connect(router.data).await;
    busy.send(get("/slow", "acme")).await;
    router.in_flight(1).await;
    let data = router.data;
    let leaving = tokio::spawn(router.router.shutdown());
    assert_eq!(idle.rest().await, b"");
    let answer = busy.answer().await;
    assert_eq!((answer.text().as_str(), answer.field("connection")), ("slow", Some("close")));
    within("the router to leave", leaving).await.unwrap();
    assert!(tokio::net::TcpStream::connect(data).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn readiness_turns_at_once_and_requests_are_served_through_the_grace() {
    let cell = cell().await;
    let router = start(&cell, Duration::from_secs(2), Duration::from_secs(10));
    let (data, probes) = (router.data, router.probes);
    assert_eq!(probe(probes, "/readyz").await, 200);
    let leaving = tokio::spawn(router.router.shutdown());
    eventually("readiness to turn", async || (probe(probes, "/readyz").await == 503).then_some(())).await;
    assert_eq!(probe(probes, "/healthz").await, 200);
    assert_eq!(raw::ask(data, get("/", "acme")).await.status(), 200);
    within("the router to leave", leaving).await.unwrap();
}

#[tokio::test]
async fn at_the_deadline_what_is_left_is_cut() {
    let cell = cell().await;
    let router = start(&cell, Duration::ZERO, Duration::from_millis(300));
    let mut stuck = raw::Client::connect(router.data).await;
    stuck.send(get("/hang", "acme")).await;
    router.in_flight(1).await;
    let begun = Instant::now();
    within("the router to leave", router.router.shutdown()).await;
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(stuck.rest().await, b"");
}
