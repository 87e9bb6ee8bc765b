//! What an operator can see, and that it moves.

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, alone, fleet};
use crate::support::processes::probe;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Refusing, Scripted, answer};

#[tokio::test]
async fn requests_are_counted_by_class_cell_and_outcome() {
    let cell = Scripted::start(|seen| {
        let status = seen.head.second_word().trim_start_matches('/').to_owned();
        Play::Answer(answer(&status, "", "x"))
    })
    .await;
    let down = Refusing::new();
    let text = fleet(
        &[cell.address, down.address],
        "
placement: { shard_size: 1, pins: { acme: [cell-a], lost: [cell-b] } }
plans: { p: { sustained: 1/h, burst: 6, max_in_flight: 9 } }
tenant: { unknown: p }
",
    );
    let router = TestRouter::start(&text);
    for path in ["/200", "/204", "/404", "/500", "/503", "/200"] {
        router.ask(get(path, "acme")).await;
    }
    router.ask(get("/200", "acme")).await;
    router.ask(get("/200", "lost")).await;
    router.ask(get("/200", "BAD")).await;
    router.idle().await;
    let metrics = router.metrics().await;
    let requests = |cell: &str, outcome: &str| {
        let (cell, outcome) = (format!("cell=\"{cell}\""), format!("outcome=\"{outcome}\""));
        metrics.sum("cofferdam_router_requests_total", &["class=\"default\"", &cell, &outcome])
    };
    assert_eq!((requests("cell-a", "success"), requests("cell-a", "client_error")), (3.0, 1.0));
    assert_eq!((requests("cell-a", "server_error"), requests("", "refused")), (2.0, 1.0));
    assert_eq!(requests("", "failed"), 1.0);
    let refusals = |level: &str, reason: &str| {
        let (level, reason) = (format!("level=\"{level}\""), format!("reason=\"{reason}\""));
        metrics.sum("cofferdam_router_refusals_total", &[&level, &reason])
    };
    assert_eq!(refusals("tenant", "rate"), 1.0);
    assert_eq!(refusals("cell", "pair_down"), 1.0);
    assert_eq!(refusals("request", "bad_tenant"), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_request_duration_seconds_count", &["class=\"default\""]), 8.0);
    assert_eq!(metrics.sum("cofferdam_router_failed_attempts_total", &["fault=\"connect\""]), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_cell_up", &[]), 1.0);
    assert_eq!(metrics.sum("cofferdam_limits_refused_total", &["level=\"tenant\"", "limited=\"rate\""]), 1.0);
    assert_eq!(metrics.sum("cofferdam_limits_tenants", &[]), 2.0);
}

#[tokio::test]
async fn compartments_show_in_use_limit_queued_and_oldest_wait() {
    // P17, P32
    let rest = "cell: { max_in_flight: 8, tenant_share: 1, classes: { default: { ceiling: 2, queue: 1, max_wait: 10s } } }\n";
    let fleet = TestFleet::start(&format!("{PINS}{rest}")).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = raw::Client::connect(fleet.router.data).await;
        client.send(get("/hang", "acme")).await;
        held.push(client);
    }
    let cell = &fleet.cells[0];
    let full = async || {
        let metrics = cell.metrics().await;
        let gauge = |name: &str| metrics.sum(&format!("cofferdam_agent_{name}"), &["class=\"default\""]);
        let oldest = gauge("oldest_wait_seconds");
        let seen = (gauge("places_in_use"), gauge("places_limit"), gauge("queued"));
        (seen == (2.0, 2.0, 1.0) && oldest > 0.0).then_some(())
    };
    eventually("two places in use, one waiting", full).await;
    assert_eq!(fleet.router.ask(get("/hang", "acme")).await.status(), 503);
    let metrics = cell.metrics().await;
    assert_eq!(metrics.sum("cofferdam_agent_refusals_total", &["reason=\"class\""]), 1.0);
    // The refusal told the router how full the cell is, though no answer of the backend's ever came.
    let cells = fleet.router.admin("/cells").await;
    assert_eq!(cells[0]["report"]["classes"]["default"], 1.0);
    assert_eq!((cells[0]["in_flight"].as_u64(), cells[1]["in_flight"].as_u64()), (Some(3), Some(0)));
    drop(held);
    fleet.idle().await;
}

#[tokio::test]
async fn where_a_tenant_is_and_why() {
    let cell = Scripted::start(|_| Play::Hang).await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    router.in_flight(1).await;
    let tenant = router.admin("/tenants/acme").await;
    assert_eq!((tenant["tenant"].as_str(), tenant["reason"].as_str()), (Some("acme"), Some("slot")));
    assert_eq!(tenant["shard"], serde_json::json!(["cell-a"]));
    assert_eq!((tenant["in_flight"].as_u64(), tenant["plan"].as_str()), (Some(1), Some("default")));
    assert_eq!(tenant["cells"][0]["up"], true);
    let other = router.admin("/tenants/nobody-yet").await;
    assert_eq!((other["in_flight"].as_u64(), other["reason"].as_str()), (Some(0), Some("slot")));
    let bad = raw::ask(router.admin, "GET /tenants/BAD HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(bad.status(), 400);
}

#[tokio::test]
async fn a_cells_report_has_an_age_that_grows() {
    let fleet = TestFleet::start(PINS).await;
    assert_eq!(fleet.router.admin("/cells").await[0]["report"], serde_json::Value::Null);
    assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
    let age = async || fleet.router.admin("/cells").await[0]["report"]["age_ms"].as_u64();
    let first = eventually("a report", age).await;
    eventually("an older report", async || age().await.filter(|age| *age > first)).await;
    let metrics = fleet.router.metrics().await;
    assert!(metrics.has("cofferdam_router_cell_saturation"));
    assert!(metrics.has("cofferdam_router_cell_report_age_seconds"));
}

#[tokio::test]
async fn the_help_of_every_metric_ends_without_a_full_stop() {
    let fleet = TestFleet::start(PINS).await;
    assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
    for probes in [fleet.router.probes, fleet.cells[0].probes] {
        let text = raw::ask(probes, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.text();
        let helps: Vec<_> = text.lines().filter(|line| line.starts_with("# HELP ")).collect();
        assert!(helps.len() > 5, "{text}");
        assert!(!helps.iter().any(|help| help.ends_with('.')), "{helps:#?}");
    }
}

#[tokio::test]
async fn probes_answer_while_everything_is_full() {
    // P18
    let rest = "routes: [{ match: { path: / }, timeout: 5m }]
cell: { max_in_flight: 4, tenant_share: 1, classes: { default: { ceiling: 4, queue: 0 } } }
plans: { p: { sustained: 100/s, burst: 100, max_in_flight: 4 } }
tenant: { unknown: p }
";
    let fleet = TestFleet::start(&format!("{PINS}{rest}")).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = raw::Client::connect(fleet.router.data).await;
        client.send(get("/hang", "acme")).await;
        held.push(client);
    }
    let full = async || (fleet.cells[0].in_use("default").await == 4.0).then_some(());
    eventually("every place to be held", full).await;
    assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 429);
    for probes in [fleet.router.probes, fleet.cells[0].probes] {
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(probe(probes, path).await, 200);
            // Nothing came free for that: it waited behind no limit and no compartment.
            let permits = fleet.router.metrics().await.sum("cofferdam_limits_in_flight", &[]);
            assert_eq!((permits, fleet.cells[0].in_use("default").await), (4.0, 4.0), "{path}");
        }
    }
    drop(held);
    fleet.idle().await;
}
