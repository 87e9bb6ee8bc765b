//! A route's own limits and its shape, quotas and shadows, as a caller meets them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::files::alone;
use crate::support::raw::{self, Answer, get, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, ok};

/// Everybody's plan, with these words beside the three that it needs, and wide enough for every test.
fn plan(more: &str) -> String {
    format!(
        "plans: {{ test: {{ sustained: 1k/s, burst: 1000, max_in_flight: 100{more} }} }}\n\
         tenant: {{ unknown: test }}\nlimits: {{ jitter: 0 }}\n"
    )
}

async fn start(rest: &str) -> (Scripted, TestRouter) {
    let cell = Scripted::named("served").await;
    let router = TestRouter::start(&alone(cell.address, rest));
    (cell, router)
}

#[track_caller]
fn refused(answer: &Answer, status: u16, problem: &str, violated: &str) {
    assert_eq!((answer.status(), answer.problem().as_str()), (status, problem), "{answer:?}");
    let violated = format!("\"violated-policies\":[\"{violated}\"]");
    assert!(answer.text().contains(&violated), "{}", answer.text());
}

/// A refusal's time holds: a request sent then passes.
async fn holds(router: &TestRouter, path: &str, problem: &str, violated: &str) {
    let refusal = loop {
        let answer = router.ask(get(path, "acme")).await;
        if answer.status() != 200 {
            break answer;
        }
    };
    refused(&refusal, 429, problem, violated);
    let wait = refusal.number("retry-after");
    assert!((1..=5).contains(&wait), "{refusal:?}");
    assert!(refusal.number("ratelimit-reset") <= wait && refusal.number("ratelimit-remaining") == 0);
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(router.ask(get(path, "acme")).await.status(), 200);
}

#[tokio::test]
async fn a_routes_limit_is_a_tenants_own_and_counts_requests() {
    // P45
    let routes = "routes: [{ match: { path: /search }, cost: 8, limit: { sustained: 1/h, burst: 2 } }]";
    let (_cell, router) = start(&format!("{}{routes}", plan(""))).await;
    for left in [1, 0] {
        let answer = router.ask(get("/search/x", "acme")).await;
        assert_eq!(answer.status(), 200);
        let policy = answer.field("ratelimit-policy").unwrap();
        assert!(policy.ends_with("qu=\"concurrent-requests\", \"route\";q=2;w=7200"), "{policy}");
        let state = answer.field("ratelimit").unwrap();
        assert!(state.contains(&format!(", \"route\";r={left};t=")), "{state}");
        assert_eq!(answer.number("ratelimit-limit"), 1000, "the older fields show the plan");
    }
    let refusal = router.ask(get("/search", "acme")).await;
    refused(&refusal, 429, "route_rate", "route");
    assert!((3590..=3600).contains(&refusal.number("retry-after")), "{refusal:?}");
    // The older fields have room for one limit: the one that refused.
    assert_eq!((refusal.number("ratelimit-limit"), refusal.number("ratelimit-remaining")), (2, 0));
    let other = router.ask(get("/", "acme")).await;
    assert_eq!(other.status(), 200);
    assert!(!other.field("ratelimit-policy").unwrap().contains("route"));
    assert_eq!(router.ask(get("/search", "globex")).await.status(), 200);
}

#[tokio::test]
async fn a_quota_of_a_day_is_the_plans_and_names_itself() {
    // P54
    let (_cell, router) = start(&plan(", quota: { 30d: 50, 1d: 5 }")).await;
    for left in (0..5).rev() {
        let answer = router.ask(get("/", "acme")).await;
        assert_eq!(answer.status(), 200);
        let policy = answer.field("ratelimit-policy").unwrap();
        assert!(policy.ends_with(", \"quota-1d\";q=5;w=86400, \"quota-30d\";q=50;w=2592000"), "{policy}");
        let state = answer.field("ratelimit").unwrap();
        assert!(state.contains(&format!("\"quota-1d\";r={left};t=")), "{state}");
        assert!(state.contains(&format!("\"quota-30d\";r={};t=", left + 45)), "{state}");
    }
    let refusal = router.ask(get("/", "acme")).await;
    refused(&refusal, 429, "tenant_quota", "quota-1d");
    // A fifth of the day has to pass in the day after this one.
    let wait = refusal.number("retry-after");
    assert!((86_400 / 5..=86_400 * 6 / 5).contains(&wait), "{refusal:?}");
    assert!(refusal.field("ratelimit").unwrap().contains(&format!("\"quota-1d\";r=0;t={wait}")));
    assert_eq!((refusal.number("ratelimit-limit"), refusal.number("ratelimit-reset")), (5, wait));
    assert_eq!(router.ask(get("/", "globex")).await.status(), 200);
}

#[tokio::test]
async fn the_time_that_a_route_tells_holds() {
    // P47
    let routes = "routes: [{ match: { path: /x }, limit: { sustained: 1/s, burst: 2 } }]";
    let (_cell, router) = start(&format!("{}{routes}", plan(""))).await;
    holds(&router, "/x", "route_rate", "route").await;
}

#[tokio::test]
async fn the_time_that_a_quota_tells_holds() {
    // P47
    let (_cell, router) = start(&plan(", quota: { 2s: 3 }")).await;
    holds(&router, "/", "tenant_quota", "quota-2s").await;
}

#[tokio::test]
async fn a_shaped_route_lets_requests_through_evenly_and_its_line_has_an_end() {
    // P53
    let arrivals = Arc::<Mutex<Vec<Instant>>>::default();
    let noted = Arc::clone(&arrivals);
    let cell = Scripted::start(move |_| {
        noted.lock().unwrap().push(Instant::now());
        Play::Answer(ok("served"))
    })
    .await;
    let routes = "routes: [{ match: { path: /x }, shape: { rate: 5/s, queue: 3, max_wait: 2s } }]";
    let router = TestRouter::start(&alone(cell.address, &format!("{}{routes}", plan(""))));
    let (begun, mut clients) = (Instant::now(), Vec::new());
    for tenant in ["acme", "globex", "acme", "initech"] {
        let mut client = raw::Client::connect(router.data).await;
        client.send(get("/x", tenant)).await;
        clients.push(client);
        // Whoever waits for its turn has its permit; the first may be back already.
        router.admitted(clients.len()).await;
    }
    let refusal = router.ask(get("/x", "hooli")).await;
    refused(&refusal, 503, "route_shape", "shape");
    assert_eq!(refusal.number("retry-after"), 1);
    assert_eq!(router.ask(get("/", "hooli")).await.status(), 200, "another route is as fast as ever");
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    let arrivals = arrivals.lock().unwrap().clone();
    // One of them is the other route's, which waited for nobody.
    assert_eq!(arrivals.len(), 5);
    // The first may have been long on its way; that it was sent is what the line began with.
    assert!(arrivals[4] - begun >= Duration::from_millis(600), "{arrivals:?}");
    router.idle().await;
}

#[tokio::test]
async fn who_leaves_the_line_reaches_no_backend_and_pays_nothing() {
    // P53
    let routes = "routes: [{ match: { path: /x }, cost: 10, shape: { rate: 1/s, queue: 3, max_wait: 5s } }]";
    let plans = "plans: { test: { sustained: 1/h, burst: 100, max_in_flight: 100 } }\n\
                 tenant: { unknown: test }\n";
    let (cell, router) = start(&format!("{plans}{routes}")).await;
    assert_eq!(router.ask(get("/x", "acme")).await.status(), 200);
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/x", "acme")).await;
    router.in_flight(1).await;
    drop(client);
    router.idle().await;
    assert_eq!(router.ask(get("/", "acme")).await.number("ratelimit-remaining"), 89);
    assert_eq!(cell.seen().len(), 2);
}

#[tokio::test]
async fn a_shadow_counts_what_it_would_refuse_and_lets_it_pass() {
    let routes = "routes: [{ match: { path: /x }, limit: { sustained: 1/h, burst: 1 } }]";
    let shadow = plan(", quota: { 1d: 2 }, shadow: true");
    let (_cell, router) = start(&format!("{shadow}{routes}")).await;
    for _ in 0..4 {
        assert_eq!(router.ask(get("/x", "acme")).await.status(), 200);
    }
    let metrics = router.metrics().await;
    let shadowed = |level: &str, limited: &str| {
        let labels = [format!("level=\"{level}\""), format!("limited=\"{limited}\"")];
        metrics.sum("cofferdam_limits_shadowed_total", &labels.each_ref().map(String::as_str))
    };
    assert_eq!((shadowed("route", "rate"), shadowed("tenant", "quota")), (3.0, 2.0));
    assert_eq!(metrics.sum("cofferdam_limits_refused_total", &[]), 0.0);
}

#[tokio::test]
async fn the_older_fields_can_be_left_out() {
    // P47
    let text = plan("").replace("jitter: 0", "jitter: 0, older_fields: false");
    let (_cell, router) = start(&text).await;
    let answer = router.ask(get("/", "acme")).await;
    assert!(answer.field("ratelimit").is_some() && answer.field("ratelimit-policy").is_some());
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        assert_eq!(answer.field(name), None);
    }
}

#[tokio::test]
async fn where_limits_are_off_nothing_is_refused_and_no_answer_names_a_limit() {
    let routes = "routes: [{ match: { path: /x }, limit: { sustained: 1/h, burst: 1 } }]";
    let text = plan("").replace("burst: 1000", "burst: 1").replace("jitter: 0", "mode: off");
    let (_cell, router) = start(&format!("{text}ceiling: {{ max_in_flight: 1 }}\n{routes}")).await;
    for _ in 0..4 {
        let answer = router.ask(get("/x", "acme")).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.text().contains("ratelimit"), "{}", answer.text());
    }
    let published = router.ask(get("/.well-known/cofferdam/limits", "acme")).await;
    assert!(!published.text().contains("burst"), "{}", published.text());
}

/// A backend's fields of these names reached the client wherever the router had none of its own to put in their place.
#[tokio::test]
async fn a_backends_word_on_limits_passes_only_where_limits_are_off() {
    let fields =
        [("ratelimit", "1"), ("ratelimit-policy", "2"), ("ratelimit-limit", "3"), ("ratelimit-reset", "4")];
    let head: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{head}trailer: ratelimit, x-sum\r\ntransfer-encoding: chunked\r\n");
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n2\r\nok\r\n0\r\n\r\n");
    let cell = Scripted::start(move |_| Play::Answer(answer.clone().into_bytes())).await;
    let router = |mode: &str| {
        let text = plan("").replace("jitter: 0", &format!("jitter: 0, older_fields: false, mode: {mode}"));
        TestRouter::start(&alone(cell.address, &text))
    };
    let ask = with_fields("GET", "/", "acme", "te: trailers\r\nconnection: te\r\n");
    let limited = router("auto").ask(&ask).await;
    for (name, value) in fields {
        assert_ne!(limited.field(name), Some(value), "{name}");
    }
    assert_eq!(limited.field("ratelimit-limit"), None);
    // No trailer is sent that was not announced.
    assert_eq!(limited.field("trailer"), Some("x-sum"));
    let off = router("off").ask(&ask).await;
    for (name, value) in fields {
        assert_eq!(off.field(name), Some(value), "{name}");
    }
    assert_eq!(off.field("trailer"), Some("ratelimit, x-sum"));
}
