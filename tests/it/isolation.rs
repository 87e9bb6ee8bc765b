//! What one class or tenant does stays in its compartment.

use std::time::Instant;

use crate::http2::client as http2;
use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::raw::{self, get};
use crate::support::{eventually, within};

const CLASSES: &str = r#"
plans: { test: { sustained: 100k/s, burst: 100000, max_in_flight: 1000 } }
tenant: { unknown: test }
routes:
  - { match: { path: /reports }, class: reports, timeout: 5m }
  - { match: { path: /queued }, class: queued, timeout: 5m }
  - { match: { path: / }, class: default, timeout: 5m }
"#;

/// One cell for each tenant: what is full there is seen as it is, since nothing goes elsewhere.
const ALONE: &str = "placement: { shard_size: 1, pins: { acme: [cell-a] } }\n";

fn cell(placement: &str, share: &str, classes: &str) -> String {
    sized(100, placement, share, classes)
}

fn sized(places: usize, placement: &str, share: &str, classes: &str) -> String {
    format!(
        "{placement}{CLASSES}cell: {{ max_in_flight: {places}, tenant_share: {share}, classes: {{ {classes} }} }}\n"
    )
}

const REPORTS: &str = "reports: { ceiling: 10, queue: 0 }, queued: { ceiling: 1, queue: 1, max_wait: 60s }, \
                       default: { floor: 20, ceiling: 50 }";

/// Sends a request on a connection of its own, and leaves its answer for later.
async fn begin(fleet: &TestFleet, path: &str, tenant: &str) -> raw::Client {
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(get(path, tenant)).await;
    client
}

/// Sends so many requests at once, and leaves their answers for later.
async fn begin_all(fleet: &TestFleet, n: usize, path: &str) -> Vec<raw::Client> {
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(begin(fleet, path, "acme").await);
    }
    clients
}

/// How many were served, and how many refused with this problem.
async fn tally(clients: Vec<raw::Client>, problem: &str) -> (usize, usize) {
    let (mut served, mut refused) = (0, 0);
    for mut client in clients {
        let answer = client.answer().await;
        match answer.status() {
            200 => served += 1,
            status => {
                assert_eq!((status, answer.problem().as_str()), (503, problem));
                refused += 1;
            }
        }
    }
    (served, refused)
}

/// Waits until the first cell's class has refused `n` requests.
async fn has_refused(fleet: &TestFleet, class: &str, n: usize) {
    let label = format!("class=\"{class}\"");
    eventually(&format!("{class} to have refused {n}"), async || {
        let refused = fleet.cells[0].metrics().await.sum("cofferdam_agent_refusals_total", &[&label]);
        (refused == n as f64).then_some(())
    })
    .await;
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
    let mut first = begin(&fleet, "/queued/hold", "acme").await;
    holds(&fleet, "queued", 1.0).await;
    let begun = Instant::now();
    let mut second = begin(&fleet, "/queued/next", "acme").await;
    let queued = async || {
        let metrics = fleet.cells[0].metrics().await;
        let oldest = metrics.sum("cofferdam_agent_oldest_wait_seconds", &["class=\"queued\""]);
        (metrics.sum("cofferdam_agent_queued", &["class=\"queued\""]) == 1.0).then_some(oldest)
    };
    let oldest = eventually("one to wait", queued).await;
    assert!(oldest > 0.0 && oldest <= begun.elapsed().as_secs_f64(), "{oldest}");
    assert_eq!(fleet.router.ask(get("/queued/next", "acme")).await.status(), 503);
    assert_eq!(fleet.cells[0].backend.seen().len(), 1, "one is served, and one waits still");
    fleet.cells[0].backend.release(1);
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

#[tokio::test]
async fn in_one_shared_pool_slow_calls_leave_the_fast_ones_no_place() {
    // P2: twelve places, on which the calls of one dependency hang. P40: 200 places, and 300 reports at once.
    for (places, n_slow) in [(12, 12), (200, 300)] {
        let fleet =
            TestFleet::start(&sized(places, ALONE, "1", "reports: {}, queued: {}, default: {}")).await;
        let slow = begin_all(&fleet, n_slow, "/hold").await;
        holds(&fleet, "default", places as f64).await;
        has_refused(&fleet, "default", n_slow - places).await;
        for _ in 0..20 {
            let answer = fleet.router.ask(get("/checkout", "acme")).await;
            assert_eq!((answer.status(), answer.problem().as_str()), (503, "cell_full"));
        }
        fleet.cells[0].backend.release(places);
        assert_eq!(tally(slow, "cell_full").await, (places, n_slow - places));
        fleet.idle().await;
        assert_eq!(fleet.router.ask(get("/checkout", "acme")).await.text(), "cell-a");
    }
}

#[tokio::test]
async fn reports_stay_within_their_cap_while_checkout_is_served_whole() {
    // P41: of 300 reports at once, 40 are served in the time that one takes, which is 8/s where that is 5 s. Meanwhile
    // whoever comes for the checkout's 80 places is served.
    let classes = "reports: { ceiling: 40 }, queued: {}, default: { floor: 80, ceiling: 80 }";
    let fleet = TestFleet::start(&sized(200, ALONE, "1", classes)).await;
    for round in 1..=2 {
        let reports = begin_all(&fleet, 300, "/reports/hold").await;
        holds(&fleet, "reports", 40.0).await;
        has_refused(&fleet, "reports", 260 * round).await;
        for _ in 0..5 {
            let checkouts = begin_all(&fleet, 80, "/checkout/slow/20").await;
            assert_eq!(tally(checkouts, "none").await, (80, 0));
            holds(&fleet, "default", 0.0).await;
        }
        assert_eq!(fleet.cells[0].in_use("reports").await, 40.0);
        fleet.cells[0].backend.release(40);
        assert_eq!(tally(reports, "cell_class").await, (40, 260));
        fleet.idle().await;
    }
}

#[tokio::test]
async fn who_comes_behind_a_thousand_of_another_tenants_has_one_of_the_next_four_places() {
    // P52: the agent is asked itself. A connection of HTTP/2 has room for a hundred of them.
    let classes = "reports: {}, queued: {}, default: { queue: 1001, max_wait: 60s }";
    let fleet = TestFleet::start(&sized(4, ALONE, "1", classes)).await;
    let cell = &fleet.cells[0];
    let (mut connections, mut noisy) = (Vec::new(), Vec::new());
    for n in 0..1004 {
        if n % 100 == 0 {
            connections.push(http2::Client::connect(cell.address).await);
        }
        let request = http2::with(http2::get("/hold", "noisy"), "cofferdam-tenant", "noisy");
        noisy.push(connections[n / 100].begin(request, true).await.0);
    }
    let queued = async || cell.metrics().await.sum("cofferdam_agent_queued", &["class=\"default\""]);
    eventually("a thousand to wait", async || (queued().await == 1000.0).then_some(())).await;
    let mut calm = raw::Client::connect(cell.address).await;
    calm.send(get("/", "calm").replace("x-tenant-id", "cofferdam-tenant")).await;
    eventually("one to wait behind them", async || (queued().await == 1001.0).then_some(())).await;
    cell.backend.release(4);
    assert_eq!(calm.answer().await.text(), "cell-a");
    assert!(queued().await >= 996.0, "they came first, and wait still");
    cell.backend.release(1000);
    for answer in noisy {
        assert_eq!(http2::finish(answer).await.unwrap().status(), 200);
    }
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
