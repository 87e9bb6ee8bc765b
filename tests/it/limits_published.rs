//! A tenant's own limits, published to it on the data listener.

use serde_json::{Value, json};

use crate::support::files::alone;
use crate::support::raw::{Answer, get, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

const PATH: &str = "/.well-known/cofferdam/limits";
const REST: &str = "plans:
  free: { sustained: 20/s, burst: 3, max_in_flight: 10 }
  pro: { sustained: 200/s, burst: 500, max_in_flight: 50, quota: { 1d: 10M, 30d: 200M } }
tenant:
  from:
    - header: { name: x-tenant-id, trusted: [127.0.0.0/8] }
    - path: { pattern: '/t/{tenant}' }
  plan_of: { acme: pro, globex: free }
routes:
  - { match: { path: /v1/search, method: GET, query: { deep: '1' } }, cost: 8, limit: { sustained: 2/s, burst: 20 } }
  - { match: { path: /health }, cost: 0 }
";

async fn start() -> (Scripted, TestRouter) {
    let cell = Scripted::named("served").await;
    let router = TestRouter::start(&alone(cell.address, REST));
    (cell, router)
}

fn json_of(answer: &Answer) -> Value {
    assert_eq!(
        (answer.status(), answer.field("content-type")),
        (200, Some("application/json")),
        "{answer:?}"
    );
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn a_tenant_reads_its_plan_and_what_routes_cost() {
    // P50
    let (cell, router) = start().await;
    let expected = json!({
        "tenant": "acme",
        "plan": "pro",
        "sustained": "200/s",
        "burst": 500,
        "max_in_flight": 50,
        "quotas": [{ "window_s": 86_400, "tokens": 10_000_000 }, { "window_s": 2_592_000, "tokens": 200_000_000 }],
        "routes": [
            { "match": { "path": "/v1/search", "method": "GET", "query": { "deep": "1" } }, "cost": 8,
              "limit": { "sustained": "2/s", "burst": 20 } },
            { "match": { "path": "/health" }, "cost": 0 },
            { "match": { "path": "/" }, "cost": 1 },
        ],
    });
    let answer = router.ask(get(PATH, "acme")).await;
    assert_eq!(json_of(&answer), expected);
    assert_eq!(answer.number("ratelimit-limit"), 500);
    // Who is named by the path asks behind it.
    let request = format!("GET /t/acme{PATH} HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(json_of(&router.ask(request).await), expected);
    let globex = json_of(&router.ask(get(PATH, "globex")).await);
    assert_eq!((&globex["plan"], &globex["quotas"]), (&json!("free"), &json!([])));
    assert_eq!(cell.seen().len(), 0);
}

#[tokio::test]
async fn to_ask_for_limits_costs_nothing_and_counts_nothing() {
    // P50
    let (cell, router) = start().await;
    for _ in 0..10 {
        let answer = router.ask(get(PATH, "globex")).await;
        assert_eq!((answer.status(), answer.number("ratelimit-remaining")), (200, 3));
    }
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_limits_admitted_total", &[]), 0.0);
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &[]), 0.0);
    assert_eq!(cell.seen().len(), 0);
}

#[tokio::test]
async fn who_is_no_tenant_reads_no_limits() {
    let (cell, router) = start().await;
    let nobody = format!("GET {PATH} HTTP/1.1\r\nhost: app\r\n\r\n");
    assert_eq!(router.ask(nobody).await.problem(), "no_tenant");
    assert_eq!(router.ask(get(PATH, "initech")).await.problem(), "unknown_tenant");
    // What is not that question goes where everything else goes.
    for (method, path) in
        [("POST", PATH), ("GET", "/v1/limits"), ("GET", "/t/globex/.well-known/cofferdam/limits")]
    {
        let request = with_fields(method, path, "acme", "content-length: 0\r\n");
        assert_eq!(router.ask(request).await.text(), "served", "{method} {path}");
    }
    assert_eq!(cell.seen().len(), 3);
}
