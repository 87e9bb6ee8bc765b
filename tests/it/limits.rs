//! Fleet-wide limits as a caller meets them: who is refused, with which status, and when to come back.

use std::time::{Duration, Instant};

use cofferdam_proxy::replay::BodyLimits;
use cofferdam_router::Settings;

use crate::support::files::{alone, fleet};
use crate::support::raw::{self, Answer, get, post, with_fields};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Refusing, Scripted, ok};

/// Everybody's plan, with a bucket that does not fill during a test.
fn plan(burst: u32, max_in_flight: u32) -> String {
    let plan = format!("{{ sustained: 1/h, burst: {burst}, max_in_flight: {max_in_flight} }}");
    format!("plans: {{ test: {plan} }}\ntenant: {{ unknown: test }}\n")
}

/// `/hang` is never answered, everything else at once.
async fn cell() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        _ => Play::Answer(ok("served")),
    })
    .await
}

fn start(cell: &Scripted, rest: &str) -> TestRouter {
    TestRouter::start(&alone(cell.address, rest))
}

/// A request that stays in flight until the result is dropped.
async fn hang(router: &TestRouter, tenant: &str) -> raw::Client {
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/hang", tenant)).await;
    client
}

#[track_caller]
fn refused(answer: &Answer, status: u16, problem: &str) {
    assert_eq!((answer.status(), answer.problem().as_str()), (status, problem), "{answer:?}");
    assert_eq!(answer.field("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn every_answer_to_a_tenant_has_its_limits_in_the_drafts_format() {
    // P47
    let (cell, down) = (cell().await, Refusing::new());
    let plan =
        "plans: { test: { sustained: 20/s, burst: 100, max_in_flight: 20 } }\ntenant: { unknown: test }\n";
    let routes = "routes:\n  - { match: { path: /hang }, class: default, timeout: 100ms }\n";
    let pins = "placement: { shard_size: 1, pins: { acme: [cell-a], lost: [cell-b] } }\n";
    let text = fleet(&[cell.address, down.address], &format!("{pins}{plan}{routes}"));
    let body = BodyLimits { max_bytes: 10, ..BodyLimits::default() };
    let router = TestRouter::with(&text, Settings { body, ..settings() }, 1);
    for (request, status) in [
        (get("/", "acme").into_bytes(), 200),
        (get("/hang", "acme").into_bytes(), 504),
        (get("/", "lost").into_bytes(), 503),
        (post("/", "acme", &[b'x'; 11]), 413),
        (with_fields("GET", "/", "acme", "via: 1.1 cofferdam-test\r\n").into_bytes(), 508),
    ] {
        let answer = router.ask(request).await;
        assert_eq!(answer.status(), status);
        let policy = answer.field("ratelimit-policy");
        assert_eq!(policy, Some(r#""rate";q=100;w=5, "conc";q=20;qu="concurrent-requests""#), "{status}");
        assert_eq!(answer.number("ratelimit-limit"), 100);
        let (left, reset) = (answer.number("ratelimit-remaining"), answer.number("ratelimit-reset"));
        assert!((95..=100).contains(&left) && reset == u64::from(left < 100), "{answer:?}");
        let state = answer.field("ratelimit").unwrap();
        let free = state.strip_prefix(&format!("\"rate\";r={left};t={reset}, \"conc\";r=")).unwrap();
        assert!(["19", "20"].contains(&free), "{state}");
    }
}

#[tokio::test]
async fn a_burst_of_100_passes_and_then_20_a_second() {
    // P42
    let cell = cell().await;
    let plan = "plans: { test: { sustained: 20/s, burst: 100, max_in_flight: 200 } }\ntenant: { unknown: test }\n\
                limits: { jitter: 0 }\n";
    let router = start(&cell, plan);
    let mut client = raw::Client::connect(router.data).await;
    let begun = Instant::now();
    let mut admitted = 0;
    let refusal = loop {
        let answer = client.ask(get("/", "acme")).await;
        if answer.status() != 200 {
            break answer;
        }
        admitted += 1;
    };
    let flowed_in = (begun.elapsed().as_secs_f64() * 20.0).ceil() as u32;
    assert!((100..=100 + flowed_in).contains(&admitted), "{admitted} with {flowed_in} flowed in");
    refused(&refusal, 429, "tenant_rate");
    assert_eq!(refusal.number("retry-after"), 1);
    assert_eq!(refusal.number("ratelimit-remaining"), 0);
    // A request sent then passes, on the same connection.
    tokio::time::sleep(Duration::from_secs(refusal.number("retry-after"))).await;
    assert_eq!(client.ask(get("/", "acme")).await.status(), 200);
}

#[tokio::test]
async fn tenants_do_not_share_their_buckets() {
    let cell = cell().await;
    let router = start(&cell, &plan(2, 10));
    for tenant in ["acme", "globex", "initech"] {
        assert_eq!(router.ask(get("/", tenant)).await.status(), 200);
        assert_eq!(router.ask(get("/", tenant)).await.status(), 200);
        refused(&router.ask(get("/", tenant)).await, 429, "tenant_rate");
    }
}

#[tokio::test]
async fn as_many_as_the_plan_says_are_in_flight_and_the_next_is_429() {
    let cell = cell().await;
    let router = start(&cell, &plan(1000, 2));
    let (first, _second) = (hang(&router, "acme").await, hang(&router, "acme").await);
    router.in_flight(2).await;
    let answer = router.ask(get("/", "acme")).await;
    refused(&answer, 429, "tenant_concurrency");
    assert!((1..=2).contains(&answer.number("retry-after")));
    assert!(answer.text().contains(r#""violated-policies":["conc"]"#), "{}", answer.text());
    assert!(answer.field("ratelimit").unwrap().ends_with(r#""conc";r=0"#));
    assert_eq!(router.ask(get("/", "globex")).await.status(), 200);
    drop(first);
    router.in_flight(1).await;
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
}

#[tokio::test]
async fn the_fleets_ceiling_is_503_and_costs_the_tenant_nothing() {
    // P45, P48
    let cell = cell().await;
    let ceiling = "ceiling: { sustained: 1/h, burst: 3 }\n";
    let router = start(&cell, &format!("{}{ceiling}", plan(10, 10)));
    for tenant in ["acme", "globex", "acme"] {
        assert_eq!(router.ask(get("/", tenant)).await.status(), 200);
    }
    for _ in 0..3 {
        let answer = router.ask(get("/", "acme")).await;
        refused(&answer, 503, "fleet_rate");
        assert!((3500..=4000).contains(&answer.number("retry-after")), "{answer:?}");
        // A refusal never says that something is left.
        assert_eq!((answer.number("ratelimit-limit"), answer.number("ratelimit-remaining")), (10, 0));
    }
    let own = router.ask(get("/.well-known/cofferdam/limits", "acme")).await;
    assert_eq!(own.number("ratelimit-remaining"), 8, "the tenant's own bucket paid nothing");
}

#[tokio::test]
async fn the_fleets_ceiling_on_requests_in_flight_is_503() {
    // P45
    let cell = cell().await;
    let router = start(&cell, &format!("{}ceiling: {{ max_in_flight: 2 }}\n", plan(100, 2)));
    let _held = (hang(&router, "acme").await, hang(&router, "globex").await);
    router.in_flight(2).await;
    refused(&router.ask(get("/", "initech")).await, 503, "fleet_concurrency");
}

#[tokio::test]
async fn routes_cost_what_the_file_says() {
    // P46
    let cell = cell().await;
    let routes = "routes:
  - { match: { path: /health }, class: default, cost: 0 }
  - { match: { path: /search, query: { deep: '1' } }, class: default, cost: 16 }
  - { match: { path: /search }, class: default, cost: 8 }
  - { match: { path: /reports, method: GET }, class: default, cost: 2 }
  - { match: { path: /import }, class: default, cost: 100 }
";
    let router = start(&cell, &format!("{}{routes}", plan(29, 10)));
    for (path, left) in [
        ("/health", 29),
        ("/search?deep=1", 13),
        ("/search/x?deep=0", 5),
        ("/reports", 3),
        ("/searching", 2),
        ("/health", 2),
    ] {
        let answer = router.ask(get(path, "acme")).await;
        assert_eq!((answer.status(), answer.number("ratelimit-remaining")), (200, left), "{path}");
    }
    refused(&router.ask(get("/search", "acme")).await, 429, "tenant_rate");
    assert_eq!(
        router.ask(with_fields("POST", "/reports", "acme", "content-length: 0\r\n")).await.status(),
        200
    );
    // What costs more than the whole burst is refused for good.
    let never = router.ask(get("/import", "globex")).await;
    refused(&never, 429, "tenant_rate");
    assert_eq!(never.field("retry-after"), None);
}

#[tokio::test]
async fn two_workers_share_one_limit() {
    // P14
    let cell = cell().await;
    let text = alone(cell.address, &plan(10, 100));
    let router = TestRouter::with(&text, settings(), 2);
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(raw::Client::connect(router.data).await);
    }
    let mut passed = 0;
    for client in &mut clients {
        passed += u32::from(client.ask(get("/", "acme")).await.status() == 200);
    }
    assert_eq!(passed, 10);
}

#[tokio::test]
async fn a_plan_that_changes_takes_effect_at_once() {
    // P36, P39: plan changes ignored.
    let cell = cell().await;
    let text = |unknown: &str| {
        let plans = "plans:
  free: { sustained: 1/h, burst: 1, max_in_flight: 1 }
  pro: { sustained: 1000/s, burst: 1000, max_in_flight: 2 }
";
        alone(cell.address, &format!("{plans}tenant: {{ unknown: {unknown} }}\n"))
    };
    let router = TestRouter::start(&text("free"));
    let _held = hang(&router, "acme").await;
    router.in_flight(1).await;
    refused(&router.ask(get("/", "acme")).await, 429, "tenant_rate");
    router.reload(&text("pro")).await.unwrap();
    // The raised bucket gives nothing at once, and fills a thousand times a second.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
    assert_eq!(router.admin("/tenants/acme").await["plan"], "pro");
    router.reload(&text("free")).await.unwrap();
    assert_eq!(router.ask(get("/", "acme")).await.status(), 429);
}

#[tokio::test]
async fn permits_are_back_after_every_way_to_end() {
    let cell = Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        "/lost" => Play::Close,
        "/truncated" => Play::Last(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort".to_vec()),
        "/nonsense" => Play::Last(b"nonsense\r\n\r\n".to_vec()),
        _ => Play::Answer(ok("served")),
    })
    .await;
    let routes =
        "routes: [{ match: { path: /hang, query: { soon: '1' } }, class: default, timeout: 50ms }]\n";
    let router = start(&cell, &format!("{}{routes}", plan(1000, 1)));
    for path in ["/", "/hang?soon=1", "/lost", "/truncated", "/nonsense", "/"] {
        // With one permit in all, one that is not back refuses the next.
        router.idle().await;
        assert_ne!(router.ask(get(path, "acme")).await.status(), 429, "{path}");
    }
    for _ in 0..5 {
        let client = hang(&router, "acme").await;
        router.in_flight(1).await;
        drop(client);
        router.idle().await;
    }
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
}

#[tokio::test]
async fn the_table_of_tenants_is_bounded_and_everybody_is_served() {
    // P39: tables without a bound.
    let cell = cell().await;
    let router = start(&cell, &format!("{}limits: {{ max_tenants: 64 }}\n", plan(1000, 10)));
    let mut client = raw::Client::connect(router.data).await;
    for n in 0..500 {
        assert_eq!(client.ask(get("/", &format!("tenant-{n}"))).await.status(), 200);
    }
    let metrics = router.metrics().await;
    let (tenants, most) =
        (metrics.sum("cofferdam_limits_tenants", &[]), metrics.sum("cofferdam_limits_tenants_max", &[]));
    assert!(tenants <= most && most <= 64.0, "{tenants} of {most}");
}
