//! What one class or tenant does stays in its compartment.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::raw::{self, get};
use crate::support::{eventually, within};

const CLASSES: &str = r#"
plans: { test: { sustained: 100k/s, burst: 100000, max_in_flight: 1000 } }
tenant: { unknown: test }
routes:
  - { match: { path: /reports }, class: reports, timeout: 20s }
  - { match: { path: /queued }, class: queued, timeout: 20s }
  - { match: { path: / }, class: default, timeout: 5s }
"#;

/// One cell for each tenant: what is full there is seen as it is, since nothing goes elsewhere.
const ALONE: &str = "placement: { shard_size: 1, pins: { acme: [cell-a] } }\n";

fn cell(placement: &str, share: &str, classes: &str) -> String {
    format!(
        "{placement}{CLASSES}cell: {{ max_in_flight: 100, tenant_share: {share}, classes: {{ {classes} }} }}\n"
    )
}

const REPORTS: &str = "reports: { ceiling: 10, queue: 0 }, queued: { ceiling: 1, queue: 1, max_wait: 5s }, \
                       default: { floor: 20, ceiling: 50 }";

/// Sends a request on a connection of its own, and leaves its answer for later.
async fn begin(fleet: &TestFleet, path: &str, tenant: &str) -> raw::Client {
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(get(path, tenant)).await;
    client
}

/// Waits until the first cell's class holds `n` places.
async fn holds(fleet: &TestFleet, class: &str, n: f64) {
    let what = format!("{class} to hold {n} places");
    eventually(&what, async || (fleet.cells[0].in_use(class).await == n).then_some(())).await;
}

#[tokio::test]
async fn a_class_that_is_full_refuses_at_once_while_the_others_serve() {
    // P2, P3, P7, P38: 15 slow on 10 places, and 20 of 20 fast.
    let fleet = TestFleet::start(&cell(ALONE, "1", REPORTS)).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(begin(&fleet, "/reports/hang", "acme").await);
    }
    holds(&fleet, "reports", 10.0).await;
    for _ in 0..5 {
        let answer = fleet.router.ask(get("/reports/hang", "acme")).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (503, "cell_class"));
        assert!(answer.number("retry-after") >= 1);
    }
    for _ in 0..20 {
        assert_eq!(fleet.router.ask(get("/fast", "acme")).await.text(), "cell-a");
    }
    drop(held);
    fleet.idle().await;
    assert_eq!(fleet.router.ask(get("/reports/slow/1", "acme")).await.status(), 200);
}

#[tokio::test]
async fn a_class_queues_briefly_and_refuses_beyond_its_queue() {
    // P7, P34
    let fleet = TestFleet::start(&cell(PINS, "1", REPORTS)).await;
    let mut first = begin(&fleet, "/queued/slow/600", "acme").await;
    holds(&fleet, "queued", 1.0).await;
    let mut second = begin(&fleet, "/queued/slow/1", "acme").await;
    let queued = async || {
        let metrics = fleet.cells[0].metrics().await;
        let oldest = metrics.sum("cofferdam_agent_oldest_wait_seconds", &["class=\"queued\""]);
        (metrics.sum("cofferdam_agent_queued", &["class=\"queued\""]) == 1.0).then_some(oldest)
    };
    assert!(eventually("one to wait", queued).await < 5.0);
    assert_eq!(fleet.router.ask(get("/queued/slow/1", "acme")).await.status(), 503);
    assert_eq!(first.answer().await.status(), 200);
    assert_eq!(second.answer().await.status(), 200);
    fleet.idle().await;
}

#[tokio::test]
async fn a_tenant_holds_its_share_of_a_class_and_leaves_the_rest() {
    // P9
    let classes = "reports: { ceiling: 8, queue: 0 }, queued: {}, default: { floor: 20, ceiling: 50 }";
    let fleet = TestFleet::start(&cell(PINS, "0.25", classes)).await;
    let _held = [begin(&fleet, "/reports/hang", "acme").await, begin(&fleet, "/reports/hang", "acme").await];
    holds(&fleet, "reports", 2.0).await;
    let answer = fleet.router.ask(get("/reports/hang", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (429, "cell_tenant"));
    assert_eq!(fleet.cells[1].backend.seen().len(), 0, "what a tenant did itself moves nowhere");
    // Another tenant with the same home is served.
    let other = (0..100).map(|n| format!("other-{n}"));
    for tenant in other {
        let answer = fleet.router.ask(get("/reports/slow/1", &tenant)).await;
        assert_eq!(answer.status(), 200, "{tenant}");
        if answer.text() == "cell-a" {
            return;
        }
    }
    panic!("none of 100 tenants has its home on the first cell");
}

/// Asks for reports of 200 ms one after another, and counts who was served and who was refused.
async fn report(data: SocketAddr, stop: Arc<AtomicBool>, [served, refused]: [Arc<AtomicU32>; 2]) {
    let mut client = raw::Client::connect(data).await;
    while !stop.load(Ordering::SeqCst) {
        let answer = client.ask(get("/reports/slow/200", "acme")).await;
        match answer.status() {
            200 => served.fetch_add(1, Ordering::SeqCst),
            _ => {
                assert_eq!((answer.status(), answer.problem().as_str()), (503, "cell_class"));
                refused.fetch_add(1, Ordering::SeqCst)
            }
        };
        // An impatient caller, and no storm.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn reports_stay_within_their_cap_while_checkout_is_served_whole() {
    // P40, P41, live: capped, reports end at cap / hold a second, and checkout never waits for them.
    let classes = "reports: { ceiling: 4, queue: 0 }, queued: {}, default: { floor: 20, ceiling: 50 }";
    let fleet = TestFleet::start(&cell(ALONE, "1", classes)).await;
    let begun = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let counts: [Arc<AtomicU32>; 2] = Default::default();
    let mut reports = tokio::task::JoinSet::new();
    for _ in 0..8 {
        reports.spawn(report(fleet.router.data, Arc::clone(&stop), counts.clone()));
    }
    let mut checkout = raw::Client::connect(fleet.router.data).await;
    let mut n_checkouts = 0;
    let seen = || counts.each_ref().map(|count| count.load(Ordering::SeqCst));
    // Two rounds of the cap are over, some were refused meanwhile, and checkout was asked all the time.
    eventually("reports served and refused beside checkouts", async || {
        assert_eq!(checkout.ask(get("/checkout", "acme")).await.status(), 200);
        n_checkouts += 1;
        let [served, refused] = seen();
        (served >= 8 && refused > 0 && n_checkouts > 50).then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    within("the reports' end", reports.join_all()).await;
    let [served, _] = seen();
    let at_most = (begun.elapsed().as_secs_f64() / 0.2).ceil() as u32 * 4;
    assert!(served <= at_most, "{served} reports exceed the cap's {at_most}");
    fleet.idle().await;
}

#[tokio::test]
async fn a_noisy_tenant_is_held_and_nobody_else_is_hurt() {
    let rest = format!(
        "{PINS}plans:\n  small: {{ sustained: 10/s, burst: 10, max_in_flight: 4 }}\n  \
         standard: {{ sustained: 1000/s, burst: 1000, max_in_flight: 100 }}\n\
         tenant: {{ plan_of: {{ acme: small }}, unknown: standard }}\n"
    );
    let fleet = TestFleet::start(&rest).await;
    let begun = Instant::now();
    let noisy = tokio::spawn({
        let data = fleet.router.data;
        async move {
            let mut client = raw::Client::connect(data).await;
            let (mut served, mut held) = (0, 0);
            while held < 200 {
                match client.ask(get("/slow/1", "acme")).await.status() {
                    200 => served += 1,
                    status => {
                        assert_eq!(status, 429);
                        held += 1;
                    }
                }
            }
            (served, begun.elapsed())
        }
    });
    for n in 0..100 {
        assert_eq!(fleet.router.ask(get("/", &format!("quiet-{}", n % 10))).await.status(), 200);
    }
    let (served, lasted) = within("a noisy tenant that is held", noisy).await.unwrap();
    let at_most = 10 + (lasted.as_secs_f64() * 10.0).ceil() as u32;
    assert!(served <= at_most, "{served} requests exceed the plan's {at_most}");
    fleet.idle().await;
}
