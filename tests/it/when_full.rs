//! What a request gets that finds no room or a breaker open, and ceilings that follow the latency: with real agents behind a
//! router.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::raw::{self, Answer, get, post};
use crate::support::scripted::{Play, Scripted, answer, ok};
use crate::support::{eventually, within};

/// Backends whose answers below `/db` are errors as long as the switch is on, and which never answer `/hang`.
async fn backends(fails: &Arc<AtomicBool>) -> [Scripted; 2] {
    let backend = |name: &'static str| {
        let fails = Arc::clone(fails);
        Scripted::start(move |seen| {
            let path = seen.head.second_word();
            match path {
                _ if path.contains("hang") => Play::Hang,
                _ if path.starts_with("/db") && fails.load(Ordering::SeqCst) => {
                    Play::Answer(answer("500 Internal Server Error", "", "db is gone"))
                }
                _ => Play::Answer(ok(name)),
            }
        })
    };
    [backend("one").await, backend("two").await]
}

async fn ask(fleet: &TestFleet, path: &str) -> Answer {
    fleet.router.ask(get(path, "acme")).await
}

/// Fills the class of `/panel`, which has one place.
async fn fill(fleet: &TestFleet) -> raw::Client {
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(get("/panel/hang", "acme")).await;
    eventually("the class to be full", async || (fleet.cells[0].in_use("panel").await == 1.0).then_some(()))
        .await;
    client
}

/// One cell for the tenant, so that nothing turns to another.
const HOME: &str = "placement: { shard_size: 1, pins: { acme: [cell-a] } }\n";

const PANEL: &str = "cell: { tenant_share: 1, classes: { panel: { ceiling: 1 } } }\n";

#[tokio::test]
async fn a_full_class_falls_back_so_that_the_page_renders_without_its_panel() {
    // P7
    let routes = "routes:\n\
                  - { match: { path: /panel/list }, class: panel, fallback: { last_good: 60s, body: '[]' } }\n\
                  - { match: { path: /panel }, class: panel, timeout: 20s }\n";
    let fleet = TestFleet::before(&format!("{HOME}{routes}{PANEL}"), backends(&Arc::default()).await).await;
    let good = ask(&fleet, "/panel/list?page=1").await;
    assert_eq!((good.status(), good.text().as_str(), good.field("cache-status")), (200, "one", None));
    fleet.idle().await;
    let held = fill(&fleet).await;
    let kept = ask(&fleet, "/panel/list?page=1").await;
    assert_eq!((kept.status(), kept.text().as_str(), kept.number("age")), (200, "one", 0));
    assert_eq!(kept.field("cache-status"), Some("cofferdam; hit; detail=fallback"));
    let other = ask(&fleet, "/panel/list?page=2").await;
    assert_eq!((other.status(), other.text().as_str()), (200, "[]"));
    assert_eq!(other.field("cache-status"), Some("cofferdam; detail=fallback"));
    assert_eq!(
        (other.field("content-type"), other.field("cache-control")),
        (Some("application/json"), Some("no-store"))
    );
    // What changes something is refused, and so is a route without a fallback.
    assert_eq!(fleet.router.ask(post("/panel/list", "acme", b"x")).await.status(), 503);
    assert_eq!(ask(&fleet, "/panel/other").await.status(), 503);
    let metrics = fleet.cells[0].metrics().await;
    assert_eq!(
        metrics.sum("cofferdam_agent_requests_total", &["class=\"panel\"", "outcome=\"fell_back\""]),
        2.0
    );
    drop(held);
    fleet.idle().await;
    assert_eq!(ask(&fleet, "/panel/list?page=2").await.text(), "one");
}

#[tokio::test]
async fn a_route_falls_back_and_ends_as_its_class_says() {
    // P7, P13
    let routes = "routes: [{ match: { path: /panel }, class: panel }]\n";
    let class = "{ ceiling: 1, timeout: 8s, fallback: { body: '[]' } }";
    let cell = format!("cell: {{ tenant_share: 1, classes: {{ panel: {class} }} }}\n");
    let fleet = TestFleet::before(&format!("{HOME}{routes}{cell}"), backends(&Arc::default()).await).await;
    let began = std::time::Instant::now();
    let mut held = fill(&fleet).await;
    let other = ask(&fleet, "/panel/list").await;
    assert_eq!((other.status(), other.text().as_str()), (200, "[]"));
    assert_eq!(held.answer().await.status(), 504);
    assert!((8..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_full_cell_falls_back_where_its_router_has_nowhere_else_to_go() {
    let routes = "routes:\n\
                  - { match: { path: /panel/list }, class: panel, fallback: { body: '[]' } }\n\
                  - { match: { path: /panel }, class: panel, timeout: 20s }\n";
    let cell = "cell: { max_in_flight: 1, tenant_share: 1, classes: { panel: {} } }\n";
    // With one cell that is the first attempt; with two, the second one's.
    for (placement, n_to_hold) in [(HOME, 1), (PINS, 2)] {
        let text = format!("{placement}{routes}{cell}");
        let fleet = TestFleet::before(&text, backends(&Arc::default()).await).await;
        let mut held = Vec::new();
        for n in 0..n_to_hold {
            let mut client = raw::Client::connect(fleet.router.data).await;
            client.send(get("/panel/hang", "acme")).await;
            let full = async || (fleet.cells[n].in_use("panel").await == 1.0).then_some(());
            eventually("the cell to be full", full).await;
            held.push(client);
        }
        let answer = ask(&fleet, "/panel/list").await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "[]"), "{placement}");
        assert_eq!(ask(&fleet, "/panel/other").await.status(), 503);
        drop(held);
        fleet.idle().await;
    }
}

#[tokio::test]
async fn a_dependency_that_fails_is_left_alone_until_one_has_tried_it_and_the_rest_goes_on() {
    // P15, P35: it is open for as long as nobody changes that, and in the end a request that tries it closes it.
    let fails = Arc::new(AtomicBool::new(true));
    let text = format!(
        "{PINS}routes:\n\
         - {{ match: {{ path: /db/page }}, dependency: db, fallback: {{ body: later, type: text/plain }} }}\n\
         - {{ match: {{ path: /db }}, dependency: db }}\n\
         cell: {{ dependencies: {{ db: {{ breaker: {{ failures: 5, open_for: 1h }} }} }} }}\n"
    );
    let fleet = TestFleet::before(&text, backends(&fails).await).await;
    for _ in 0..5 {
        assert_eq!(ask(&fleet, "/db").await.status(), 500);
    }
    let open = ask(&fleet, "/db").await;
    assert_eq!((open.status(), open.problem().as_str()), (503, "dependency_breaker_open"));
    assert_eq!(ask(&fleet, "/db/page").await.text(), "later");
    assert_eq!(ask(&fleet, "/").await.text(), "one");
    assert_eq!(fleet.cells[1].backend.seen().len(), 0, "the other cell needs the same");
    assert_eq!(fleet.cells[0].backend.seen().len(), 6);
    let metrics = fleet.cells[0].metrics().await;
    let of = ["of=\"dependency db\""];
    assert_eq!(metrics.sum("cofferdam_agent_breaker_open", &of), 1.0);
    assert_eq!(metrics.sum("cofferdam_agent_breaker_opened_total", &of), 1.0);
    fails.store(false, Ordering::SeqCst);
    assert_eq!(ask(&fleet, "/db").await.status(), 503, "nobody tries it before its time");
    fails.store(true, Ordering::SeqCst);
    fleet.cells[0].reload(&fleet.text.replace("open_for: 1h", "open_for: 100ms"));
    let opened =
        async || fleet.cells[0].metrics().await.sum("cofferdam_agent_breaker_opened_total", &of) > 0.0;
    eventually("a breaker of other rules to open", async || {
        assert_ne!(ask(&fleet, "/db").await.status(), 200);
        opened().await.then_some(())
    })
    .await;
    fails.store(false, Ordering::SeqCst);
    eventually("the breaker to close", async || (ask(&fleet, "/db").await.status() == 200).then_some(()))
        .await;
    assert_eq!(fleet.cells[0].metrics().await.sum("cofferdam_agent_breaker_open", &of), 0.0);
}

#[tokio::test]
async fn a_backend_that_fails_is_left_alone_and_the_other_cell_serves() {
    let fails = Arc::new(AtomicBool::new(true));
    let [one, _] = backends(&fails).await;
    let [_, two] = backends(&Arc::default()).await;
    let fleet =
        TestFleet::before(&format!("{PINS}cell: {{ breaker: {{ failures: 3 }} }}\n"), [one, two]).await;
    for _ in 0..3 {
        assert_eq!(ask(&fleet, "/db").await.status(), 500);
    }
    assert_eq!(ask(&fleet, "/db").await.text(), "two");
}

#[tokio::test]
async fn a_backend_that_grows_slow_is_seen_by_its_compartment_first_and_by_no_rate() {
    // P11: at the same rate, the third call finds no place; no outcome has come back that a breaker could count.
    let text = format!(
        "{HOME}plans: {{ test: {{ sustained: 1k/s, burst: 1000, max_in_flight: 100 }} }}\ntenant: {{ unknown: test }}\n\
         cell: {{ tenant_share: 1, breaker: {{ failures: 1, share: 0 }}, classes: {{ default: {{ ceiling: 2 }} }} }}\n"
    );
    let fleet = TestFleet::before(&text, backends(&Arc::default()).await).await;
    let mut held = Vec::new();
    for n in 1..=2 {
        let mut client = raw::Client::connect(fleet.router.data).await;
        client.send(get("/hang", "acme")).await;
        held.push(client);
        let holds = async || (fleet.cells[0].in_use("default").await == f64::from(n)).then_some(());
        eventually("a place to be held", holds).await;
    }
    let third = ask(&fleet, "/").await;
    assert_eq!((third.status(), third.problem().as_str()), (503, "cell_class"));
    assert!(third.number("ratelimit-remaining") > 900, "the bucket is full nearly");
    let metrics = fleet.cells[0].metrics().await;
    assert_eq!(metrics.sum("cofferdam_agent_breaker_open", &[]), 0.0);
    drop(held);
    fleet.idle().await;
}

#[tokio::test]
async fn a_ceiling_follows_the_latency_and_says_why() {
    // P22
    let (takes_ms, stop) = (Arc::new(AtomicU64::new(4)), Arc::new(AtomicBool::new(false)));
    let late = |takes_ms: Arc<AtomicU64>| {
        move |_: &_| Play::Late(Duration::from_millis(takes_ms.load(Ordering::SeqCst)), ok("served"))
    };
    let backends = [
        Scripted::start(late(Arc::clone(&takes_ms))).await,
        Scripted::start(late(Arc::clone(&takes_ms))).await,
    ];
    let text = format!(
        "{HOME}cell: {{ tenant_share: 1, classes: {{ default: {{ floor: 2, ceiling: 40, queue: 20, adaptive: {{}} }} }} }}\n"
    );
    let fleet = TestFleet::before(&text, backends).await;
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (data, stop) = (fleet.router.data, Arc::clone(&stop));
        lanes.spawn(async move {
            let mut client = raw::Client::connect(data).await;
            while !stop.load(Ordering::SeqCst) {
                client.ask(get("/", "acme")).await;
            }
        });
    }
    // What one scrape says of the limit, beside whether it is said while the latency without load is measured.
    let gauges = async || {
        let metrics = fleet.cells[0].metrics().await;
        let gauge = |name: &str| metrics.sum(&format!("cofferdam_agent_adaptive_{name}"), &[]);
        let names = ["limit", "unloaded_seconds", "gradient", "probing"].map(gauge);
        let places = metrics.sum("cofferdam_agent_places_limit", &["class=\"default\""]);
        (names, places)
    };
    let (before, unloaded) = eventually("the latency without load to be known", async || {
        let ([limit, unloaded, _, probing], _) = gauges().await;
        (unloaded >= 0.004 && probing == 0.0).then_some((limit, unloaded))
    })
    .await;
    // On a machine with much to do, even answers without load took their time.
    takes_ms.store(100 + (unloaded * 5000.0) as u64, Ordering::SeqCst);
    eventually("the limit to fall, by what the latency says", async || {
        let ([limit, _, gradient, probing], _) = gauges().await;
        (limit < before && gradient < 1.0 && probing == 0.0).then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    within("the load's end", lanes.join_all()).await;
    let ([limit, ..], places) = gauges().await;
    assert_eq!(places, limit);
    assert!(limit < before, "{before} before, {limit} after");
}
