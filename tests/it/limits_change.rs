//! Limits that change while a router runs: a new fleet file lowers or raises them, and what was spent stays spent.

use std::time::Duration;

use crate::support::files::alone;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, ok};

async fn cell() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        _ => Play::Answer(ok("served")),
    })
    .await
}

/// One plan for everybody, with these words beside what every plan needs, and one route.
fn text(cell: &Scripted, plan: &str, route: &str) -> String {
    let plan = format!("plans: {{ test: {{ {plan} }} }}\ntenant: {{ unknown: test }}\n");
    let route = format!("routes: [{{ match: {{ path: /x }}{route} }}]");
    alone(cell.address, &format!("{plan}{route}"))
}

/// A request that stays in flight, the nth, until the result is dropped.
async fn hang(router: &TestRouter, n: u32) -> raw::Client {
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/hang", "acme")).await;
    router.in_flight(n).await;
    client
}

async fn statuses<const N: usize>(router: &TestRouter, path: &str) -> [u16; N] {
    let mut statuses = [0; N];
    for status in &mut statuses {
        *status = router.ask(get(path, "acme")).await.status();
    }
    statuses
}

#[tokio::test]
async fn a_burst_that_is_lowered_clamps_at_once_and_one_that_is_raised_gives_nothing_at_once() {
    let cell = cell().await;
    let plan = |burst: u32| format!("sustained: 1/h, burst: {burst}, max_in_flight: 9");
    let router = TestRouter::start(&text(&cell, &plan(10), ""));
    assert_eq!(statuses(&router, "/").await, [200, 200]);
    router.reload(&text(&cell, &plan(3), "")).await.unwrap();
    let lowered = router.ask(get("/", "acme")).await;
    assert_eq!((lowered.number("ratelimit-limit"), lowered.number("ratelimit-remaining")), (3, 2));
    router.reload(&text(&cell, &plan(20), "")).await.unwrap();
    let raised = router.ask(get("/", "acme")).await;
    assert_eq!((raised.number("ratelimit-limit"), raised.number("ratelimit-remaining")), (20, 1));
    assert_eq!(router.ask(get("/", "globex")).await.number("ratelimit-remaining"), 19, "the idle have it");
}

#[tokio::test]
async fn what_is_in_flight_drains_to_a_lowered_limit_and_a_raised_one_is_there_at_once() {
    let cell = cell().await;
    let plan = |max: u32| format!("sustained: 1k/s, burst: 1000, max_in_flight: {max}");
    let router = TestRouter::start(&text(&cell, &plan(2), ""));
    let mut held = vec![hang(&router, 1).await, hang(&router, 2).await];
    assert_eq!(statuses(&router, "/").await, [429]);
    router.reload(&text(&cell, &plan(3), "")).await.unwrap();
    assert_eq!(statuses(&router, "/").await, [200]);
    router.reload(&text(&cell, &plan(1), "")).await.unwrap();
    assert_eq!(statuses(&router, "/").await, [429]);
    held.pop();
    router.in_flight(1).await;
    assert_eq!(statuses(&router, "/").await, [429], "one is left, and one may be");
    held.pop();
    router.idle().await;
    assert_eq!(statuses(&router, "/").await, [200]);
}

#[tokio::test]
async fn a_quota_that_changes_counts_what_was_spent() {
    let cell = cell().await;
    let plan =
        |quota: u32| format!("sustained: 1k/s, burst: 1000, max_in_flight: 9, quota: {{ 1d: {quota} }}");
    let router = TestRouter::start(&text(&cell, &plan(3), ""));
    assert_eq!(statuses(&router, "/").await, [200, 200, 200, 429]);
    router.reload(&text(&cell, &plan(5), "")).await.unwrap();
    assert_eq!(statuses(&router, "/").await, [200, 200, 429]);
    router.reload(&text(&cell, &plan(4), "")).await.unwrap();
    assert_eq!(statuses(&router, "/").await, [429]);
}

#[tokio::test]
async fn a_routes_limit_comes_changes_and_goes() {
    let cell = cell().await;
    let plan = "sustained: 1k/s, burst: 1000, max_in_flight: 9";
    let limit = |burst: u32| format!(", limit: {{ sustained: 1/h, burst: {burst} }}");
    let router = TestRouter::start(&text(&cell, plan, ""));
    assert_eq!(statuses(&router, "/x").await, [200, 200, 200]);
    router.reload(&text(&cell, plan, &limit(2))).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [200, 200, 429]);
    router.reload(&text(&cell, plan, &limit(5))).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [429], "the raised bucket gives nothing at once");
    router.reload(&text(&cell, plan, "")).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [200, 200]);
    // Another word of the route does not make it another one.
    router.reload(&text(&cell, plan, &format!("{}, timeout: 3s", limit(5)))).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [429]);
}

#[tokio::test]
async fn a_shape_and_a_shadow_come_and_go() {
    let cell = cell().await;
    let plan = "sustained: 1/h, burst: 3, max_in_flight: 9";
    let router = TestRouter::start(&text(&cell, plan, ", shape: { rate: 1/min, queue: 0 }"));
    assert_eq!(statuses(&router, "/x").await, [200, 503]);
    router.reload(&text(&cell, plan, ", shape: { rate: 1k/s, queue: 5, max_wait: 1s }")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(statuses(&router, "/x").await, [503], "the turn that was given is a minute away");
    router.reload(&text(&cell, plan, "")).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [200, 200, 429]);
    router.reload(&text(&cell, &format!("{plan}, shadow: true"), "")).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [200, 200]);
    router.reload(&text(&cell, plan, "")).await.unwrap();
    assert_eq!(statuses(&router, "/x").await, [429]);
}
