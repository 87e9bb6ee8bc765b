//! Which of its two cells a request goes to, by what they say of their load; and when it is sent to neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, fleet};
use crate::support::raw::{self, get, post};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer, refusal};
use crate::support::{eventually, within};

const CLASSES: &str = "
plans: { test: { sustained: 100k/s, burst: 100000, max_in_flight: 1000 } }
tenant: { unknown: test }
routes:
  - { match: { path: /checkout }, class: checkout, timeout: 20s }
  - { match: { path: /reports/panel }, class: reports, fallback: { body: '[]' } }
  - { match: { path: /reports }, class: reports, timeout: 20s }
  - { match: { path: / }, class: default, timeout: 20s }
cell:
  max_in_flight: 10
  tenant_share: 1
  classes: { checkout: { priority: 0, floor: 2 }, reports: { priority: 9, ceiling: 4 }, default: { priority: 5 } }
";

/// A 200 that says how full its cell is.
fn says(text: &str, load: &str) -> Vec<u8> {
    answer("200 OK", &format!("endpoint-load-metrics: TEXT {load}\r\n"), text)
}

/// Holds `n` places with requests that have no answer yet.
async fn hold(fleet: &TestFleet, n: usize, path: &str, tenant: &str) -> Vec<raw::Client> {
    let mut held = Vec::new();
    for _ in 0..n {
        let mut client = raw::Client::connect(fleet.router.data).await;
        client.send(get(path, tenant)).await;
        held.push(client);
    }
    held
}

#[tokio::test]
async fn a_home_whose_class_is_full_is_left_before_anything_is_refused() {
    let fleet = TestFleet::probed(&format!("{PINS}{CLASSES}")).await;
    let _held = hold(&fleet, 4, "/reports/hang", "acme").await;
    // None of them has an answer: that the class is full is learned by asking the cell.
    let avoided = async || {
        let cells = fleet.router.admin("/cells").await;
        cells[0]["report"]["classes_avoided_for_ms"]["reports"].as_u64()
    };
    eventually("reports to be avoided", avoided).await;
    assert_eq!(fleet.router.ask(get("/reports/slow/1", "acme")).await.text(), "cell-b");
    assert_eq!(fleet.router.ask(get("/other", "acme")).await.text(), "cell-a", "other classes stay at home");
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_cell_avoided", &["cell=\"cell-a\""]), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_failed_attempts_total", &[]), 0.0);
    let home = &fleet.router.admin("/tenants/acme").await["cells"][0];
    assert_eq!((home["id"].as_str(), home["report"]["avoided_for_ms"].is_null()), (Some("cell-a"), true));
}

#[tokio::test]
async fn an_answer_does_not_count_its_own_place_so_a_class_of_one_place_stays_at_home() {
    let one = "cell: { tenant_share: 1, classes: { default: { ceiling: 1 } } }\n";
    let fleet = TestFleet::start(&format!("{PINS}{one}")).await;
    for _ in 0..10 {
        assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "cell-a");
        fleet.idle().await;
    }
    let _held = hold(&fleet, 1, "/hang", "acme").await;
    let full = async || (fleet.cells[0].in_use("default").await == 1.0).then_some(());
    eventually("the place to be held", full).await;
    // The refusal has no place of its own, and says that the class is full.
    let begun = Instant::now();
    assert_eq!(fleet.router.ask(get("/", "acme")).await.problem(), "cell_class");
    let next = fleet.router.ask(get("/", "acme")).await;
    // What was said two seconds ago says nothing any more.
    assert!(next.text() == "cell-b" || begun.elapsed().as_secs() >= 2, "{next:?}");
}

#[tokio::test]
async fn with_both_cells_full_the_lowest_class_is_shed_and_the_highest_goes_on() {
    let fleet = TestFleet::probed(&format!("{PINS}{CLASSES}")).await;
    // Eight places of ten: the other two of each cell are the checkout's, and the rest has none left.
    let mut held = hold(&fleet, 8, "/other/hang", "acme").await;
    held.extend(hold(&fleet, 8, "/other/hang", "globex").await);
    held.extend(hold(&fleet, 1, "/checkout/hang", "acme").await);
    held.extend(hold(&fleet, 1, "/checkout/hang", "globex").await);
    let full = async || {
        let cells = fleet.router.admin("/cells").await;
        let is_full = |cell: &Value| cell["report"]["saturation"].as_f64() == Some(0.9);
        cells.as_array().unwrap().iter().all(is_full).then_some(())
    };
    eventually("both cells to say that they are full", full).await;
    let answer = fleet.router.ask(get("/reports/slow/1", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (503, "shed"));
    // What stands in for an answer takes no place, so that the page renders all the same; what is not asked for by GET has none.
    let panel = fleet.router.ask(get("/reports/panel", "acme")).await;
    assert_eq!((panel.status(), panel.text().as_str()), (200, "[]"));
    assert_eq!(panel.field("cache-status"), Some("cofferdam; detail=fallback"));
    assert_eq!(fleet.router.ask(post("/reports/panel", "acme", b"x")).await.problem(), "shed");
    assert!(answer.number("retry-after") >= 1 && answer.field("ratelimit").is_some());
    let reached = |path: &str| {
        let seen = fleet.cells.iter().flat_map(|cell| cell.backend.seen());
        seen.filter(|seen| seen.head.second_word().contains(path)).count()
    };
    assert_eq!(reached("/reports"), 0);
    assert_eq!(fleet.router.ask(get("/checkout/slow/1", "acme")).await.status(), 200);
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_refusals_total", &["level=\"cell\"", "reason=\"shed\""]), 2.0);
    for cell in &fleet.cells {
        assert_eq!(cell.metrics().await.sum("cofferdam_agent_refusals_total", &[]), 0.0);
    }
    drop(held);
    fleet.idle().await;
}

#[tokio::test]
async fn a_report_is_taken_from_any_answer_and_none_reaches_the_client() {
    let full = "application_utilization=0.2, named_metrics.default=0.95";
    let home = Scripted::start(move |_| Play::Answer(says("home", full))).await;
    let second = Scripted::start(|_| Play::Answer(says("second", "application_utilization=0.1"))).await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    let served_by = async || {
        let answer = router.ask(get("/", "acme")).await;
        assert_eq!(answer.field("endpoint-load-metrics"), None);
        answer.text()
    };
    let begun = Instant::now();
    assert_eq!(served_by().await, "home");
    let mut at_home = 0;
    for _ in 0..5 {
        at_home += u64::from(served_by().await == "home");
    }
    // Home is asked again once its report is two seconds old, since there is no probe that could ask for a newer one.
    assert!(at_home <= begun.elapsed().as_secs() / 2, "{at_home} after it said that it is full");
    eventually("home to be tried again", async || (served_by().await == "home").then_some(())).await;
    eventually("home to be left again", async || (served_by().await == "second").then_some(())).await;
}

#[tokio::test]
async fn a_full_cell_that_refuses_is_left_until_its_word_is_old() {
    let full = refusal("503 Service Unavailable", "cell");
    let said = "endpoint-load-metrics: TEXT application_utilization=1.000\r\n";
    let at = full.windows(2).position(|bytes| bytes == b"\r\n").unwrap() + 2;
    let full = [&full[..at], said.as_bytes(), &full[at..]].concat();
    let home = Scripted::start(move |_| Play::Answer(full.clone())).await;
    let second = Scripted::named("second").await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    }
    let at_most = 1 + begun.elapsed().as_secs() as usize / 2;
    assert!((1..=at_most).contains(&home.seen().len()), "one refusal is enough for two seconds");
}

#[tokio::test]
async fn three_routers_under_load_share_the_cells_evenly() {
    const LANES: usize = 60;
    const CELLS: usize = 4;
    let fleet =
        TestFleet::of(CELLS, &format!("placement: {{ choose: balance }}{CLASSES}").replace("10\n", "100\n"))
            .await;
    let beside = [TestRouter::start(&fleet.text), TestRouter::start(&fleet.text)];
    let routers = [&fleet.router, &beside[0], &beside[1]].map(|router| router.data);
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (stop, served, to) = (Arc::clone(&stop), Arc::clone(&served), routers[lane % routers.len()]);
        lanes.spawn(async move {
            let mut client = raw::Client::connect(to).await;
            for turn in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let tenant = format!("tenant-{}", lane * 7 + turn * 13);
                assert_eq!(client.ask(get("/slow/100", &tenant)).await.status(), 200);
                served.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let enough = async || (served.load(Ordering::SeqCst) >= LANES * 15).then_some(());
    eventually("fifteen rounds of requests", enough).await;
    stop.store(true, Ordering::SeqCst);
    within("the load's end", lanes.join_all()).await;
    let mean = (LANES / CELLS) as f64;
    for cell in &fleet.cells {
        let peak = cell.metrics().await.sum("cofferdam_agent_places_peak", &["class=\"default\""]);
        assert!(peak >= mean / 2.0 && peak <= 1.8 * mean, "a peak of {peak} for a mean of {mean}");
    }
}
