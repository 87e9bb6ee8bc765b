//! A cost that only the backend knows: it says so on its answer, its agent lets that pass, the router takes it where the
//! route says so, and no client hears of it.

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, alone};
use crate::support::raw::get;
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer};

const PLAN: &str = "plans: { test: { sustained: 1/h, burst: 100, max_in_flight: 9, quota: { 1d: 1k } } }\ntenant: { unknown: test }\n";
const ROUTES: &str = "routes:
  - { match: { path: /settled }, cost: 10, settle: true }
  - { match: { path: /fixed }, cost: 10 }
";

/// `/.../N` is answered with a cost of N, whatever N is.
async fn backend() -> Scripted {
    Scripted::start(|seen| {
        let cost = seen.head.second_word().rsplit('/').next().unwrap_or_default();
        Play::Answer(answer("200 OK", &format!("cofferdam-cost: {cost}\r\nx-own: 1\r\n"), "served"))
    })
    .await
}

/// What is left to the tenant, read by a request that costs one.
async fn left(router: &TestRouter) -> u64 {
    router.ask(get("/", "acme")).await.number("ratelimit-remaining")
}

#[tokio::test]
async fn the_backends_cost_is_settled_through_its_agent_where_the_route_says_so() {
    // P46
    let backends = [backend().await, backend().await];
    let fleet = TestFleet::before(&format!("{PINS}{PLAN}{ROUTES}"), backends).await;
    let mut expected = 100;
    for (path, cost) in [
        ("/settled/25", 25),
        ("/settled/3", 3),
        ("/settled/0", 0),
        ("/fixed/25", 10),
        ("/settled/many", 10),
        ("/settled/-5", 10),
        ("/settled/4294967296", 10),
    ] {
        let answer = fleet.router.ask(get(path, "acme")).await;
        assert_eq!((answer.status(), answer.field("x-own")), (200, Some("1")), "{path}");
        let internal = answer.head.fields.iter().find(|(name, _)| name.starts_with("cofferdam"));
        assert_eq!(internal, None, "{path}");
        fleet.idle().await;
        expected -= cost + 1;
        assert_eq!(left(&fleet.router).await, expected, "{path}");
    }
    // The last request's quota has paid the same.
    let state = fleet.router.ask(get("/", "acme")).await;
    let spent = 100 - (expected - 1);
    assert!(state.field("ratelimit").unwrap().contains(&format!("\"quota-1d\";r={};", 1000 - spent)));
}

#[tokio::test]
async fn a_tenant_may_owe_up_to_one_burst_for_what_was_not_known_before() {
    let backend = backend().await;
    let router =
        TestRouter::start(&alone(backend.address, &format!("{PLAN}limits: {{ jitter: 0 }}\n{ROUTES}")));
    assert_eq!(router.ask(get("/settled/150", "acme")).await.status(), 200);
    router.idle().await;
    let refusal = router.ask(get("/", "acme")).await;
    assert_eq!((refusal.status(), refusal.problem().as_str()), (429, "tenant_rate"));
    // 50 are owed, and one is wanted: an hour for each.
    assert!((50 * 3600..=51 * 3600).contains(&refusal.number("retry-after")), "{refusal:?}");
    assert_eq!(router.ask(get("/settled/9", "globex")).await.status(), 200);
}
