//! What is refused, for which reason, and who never notices.

use crate::support::{TestBackend, TestCell, eventually, probe, refusal};

const ROUTES: &str = "
routes:
  - { match: { path: /search },  class: search }
  - { match: { path: /reports }, class: reports }
  - { match: { path: / },        class: default }
";

fn cell(backend: &TestBackend, rules: &str) -> TestCell {
    TestCell::start(backend.address, &format!("{ROUTES}cell:\n  {rules}\n"))
}

// P3, P7
#[tokio::test]
async fn a_full_class_is_refused_while_another_class_is_served() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ max_in_flight: 12, tenant_share: 1, classes: { search: { ceiling: 2, queue: 0 }, reports: { queue: 0 } } }",
    );
    let held = [cell.go("acme", "/search/hold"), cell.go("globex", "/search/hold")];
    backend.entered(2).await;
    let refused = cell.get("acme", "/search").send().await.unwrap();
    assert_eq!(refusal(&refused), (503, "class"));
    let load = refused.headers()["endpoint-load-metrics"].to_str().unwrap();
    assert!(load.contains("named_metrics.search=1.000"), "{load}");
    assert_eq!(cell.get("acme", "/reports").send().await.unwrap().status(), 200);
    assert_eq!(backend.n_entered(), 3, "what is refused never reaches the backend");
    backend.release(2);
    for held in held {
        assert_eq!(held.await.unwrap().status(), 200);
    }
    cell.until("search", "used", 0).await;
}

// P9
#[tokio::test]
async fn a_tenant_at_its_share_is_refused_alone() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ max_in_flight: 8, tenant_share: 0.25, classes: { search: { ceiling: 8, queue: 0 }, reports: {} } }",
    );
    let held = [cell.go("acme", "/search/hold"), cell.go("acme", "/search/hold")];
    backend.entered(2).await;
    assert_eq!(refusal(&cell.get("acme", "/search").send().await.unwrap()), (429, "tenant"));
    assert_eq!(cell.get("globex", "/search").send().await.unwrap().status(), 200);
    backend.release(2);
    for held in held {
        held.await.unwrap();
    }
}

/// A cell for two dependencies, each of whose calls is of a class, with these classes.
fn shop(backend: &TestBackend, [payment, inventory]: [&str; 2], classes: &str) -> TestCell {
    let sections = format!(
        "routes:
  - {{ match: {{ path: /payment }}, class: {payment}, timeout: 5m }}
  - {{ match: {{ path: /inventory }}, class: {inventory}, timeout: 5m }}
cell: {{ max_in_flight: 4, tenant_share: 1, classes: {{ {classes} }} }}
"
    );
    TestCell::start(backend.address, &sections)
}

// P28
#[tokio::test]
async fn of_ten_payments_at_once_six_are_refused_and_of_three_inventory_calls_none() {
    let backend = TestBackend::start();
    let pool = "{ floor: 2, ceiling: 2, queue: 2, max_wait: 60s }";
    let cell = shop(&backend, ["payment", "inventory"], &format!("payment: {pool}, inventory: {pool}"));
    let payments: Vec<_> = (0..10).map(|_| cell.go("acme", "/payment/hold")).collect();
    cell.until_metric(r#"cofferdam_agent_refusals_total{class="payment",reason="class"} 6"#).await;
    cell.until("payment", "queued", 2).await;
    let inventory: Vec<_> = (0..3).map(|_| cell.go("acme", "/inventory")).collect();
    for call in inventory {
        assert_eq!(call.await.unwrap().status(), 200);
    }
    assert_eq!(cell.class("payment").await["used"], 2, "they hold their own places all the while");
    backend.release(4);
    let mut served = 0;
    for payment in payments {
        let answer = payment.await.unwrap();
        match answer.status().as_u16() {
            200 => served += 1,
            _ => assert_eq!(refusal(&answer), (503, "class")),
        }
    }
    assert_eq!(served, 4);
}

// P27
#[tokio::test]
async fn four_payments_in_one_shared_class_refuse_the_inventory_call() {
    let backend = TestBackend::start();
    let cell = shop(&backend, ["shop", "shop"], "shop: { ceiling: 2, queue: 2, max_wait: 60s }");
    let payments: Vec<_> = (0..4).map(|_| cell.go("acme", "/payment/hold")).collect();
    backend.entered(2).await;
    cell.until("shop", "queued", 2).await;
    assert_eq!(refusal(&cell.get("acme", "/inventory").send().await.unwrap()), (503, "class"));
    assert_eq!(backend.n_entered(), 2, "well as it was, it was never asked");
    backend.release(4);
    for payment in payments {
        assert_eq!(payment.await.unwrap().status(), 200);
    }
    cell.until("shop", "used", 0).await;
    assert_eq!(cell.get("acme", "/inventory").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_full_cell_is_refused_as_the_cell() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ max_in_flight: 2, tenant_share: 1, classes: { search: { queue: 0 }, reports: { queue: 0 } } }",
    );
    let held = [cell.go("acme", "/search/hold"), cell.go("acme", "/search/hold")];
    backend.entered(2).await;
    assert_eq!(refusal(&cell.get("globex", "/reports").send().await.unwrap()), (503, "cell"));
    backend.release(2);
    for held in held {
        held.await.unwrap();
    }
}

// P7, P34
#[tokio::test]
async fn a_queue_is_bounded_and_a_freed_place_goes_to_who_waits() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ tenant_share: 1, classes: { search: { ceiling: 1, queue: 1, max_wait: 60s }, reports: {} } }",
    );
    let held = cell.go("acme", "/search/hold");
    backend.entered(1).await;
    let waiting = cell.go("globex", "/search");
    cell.until("search", "queued", 1).await;
    assert_eq!(refusal(&cell.get("initech", "/search").send().await.unwrap()), (503, "class"));
    backend.release(1);
    assert_eq!(held.await.unwrap().status(), 200);
    assert_eq!(waiting.await.unwrap().status(), 200);
    cell.until("search", "used", 0).await;
}

// P13, P17
#[tokio::test]
async fn who_waits_in_vain_is_refused_after_max_wait_and_counted() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ tenant_share: 1, classes: { search: { ceiling: 1, queue: 1, max_wait: 20ms }, reports: {} } }",
    );
    let held = cell.go("acme", "/search/hold");
    backend.entered(1).await;
    assert_eq!(refusal(&cell.get("globex", "/search").send().await.unwrap()), (503, "class"));
    cell.until_metric(r#"cofferdam_agent_queue_timeouts_total{class="search"} 1"#).await;
    cell.until_metric(r#"cofferdam_agent_refusals_total{class="search",reason="class"} 1"#).await;
    backend.release(1);
    held.await.unwrap();
}

// P18, P32
#[tokio::test]
async fn probes_answer_and_show_the_compartments_while_everything_is_full() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ max_in_flight: 2, tenant_share: 1, classes: { search: { queue: 1, max_wait: 60s }, reports: {} } }",
    );
    let held = [cell.go("acme", "/search/hold"), cell.go("acme", "/search/hold")];
    backend.entered(2).await;
    let waiting = cell.go("globex", "/search");
    cell.until("search", "queued", 1).await;
    eventually(async || cell.probe("/readyz").await.0 == 200).await;
    for path in ["/healthz", "/readyz", "/saturation", "/metrics"] {
        assert_eq!(cell.probe(path).await.0, 200);
        // Nothing came free for that: whoever holds a place has it, and whoever waits waits.
        assert!(held.iter().chain([&waiting]).all(|request| !request.is_finished()), "{path}");
        let search = cell.class("search").await;
        assert_eq!((&search["used"], &search["queued"]), (&2.into(), &1.into()), "{path}");
    }
    let metrics = cell.probe("/metrics").await.1;
    for line in [
        r#"cofferdam_agent_places_in_use{class="search"} 2.0"#,
        r#"cofferdam_agent_places_limit{class="search"} 2.0"#,
        r#"cofferdam_agent_queued{class="search"} 1.0"#,
        "cofferdam_agent_cell_places_in_use 2.0",
        "cofferdam_agent_cell_places_limit 2.0",
        "cofferdam_agent_cell_saturation 1.0",
    ] {
        assert!(metrics.lines().any(|each| each == line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("acme"), "a tenant is never a label");
    let mut helps = metrics.lines().filter(|line| line.starts_with("# HELP "));
    assert!(helps.all(|help| !help.ends_with('.')), "{metrics}");
    let report = cell.saturation().await;
    assert_eq!(report["cell"], "cell-a");
    assert_eq!(report["saturation"], 1.0);
    assert_eq!(report["top_tenants"], serde_json::Value::Null, "names are for operators");
    let report = probe(&cell.client, cell.admin, "/saturation").await.1;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["top_tenants"][0], serde_json::json!({ "tenant": "acme", "used": 2, "queued": 0 }));
    backend.release(2);
    for held in held.into_iter().chain([waiting]) {
        assert_eq!(held.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn the_rates_of_requests_errors_and_refusals_are_told_and_fall_again() {
    let backend = TestBackend::start();
    let cell = cell(&backend, "{ tenant_share: 1, classes: { search: { ceiling: 1 }, reports: {} } }");
    let held = cell.go("acme", "/search/hold");
    backend.entered(1).await;
    // Rates are the last second's, so what is looked at is made anew each time.
    eventually(async || {
        assert_eq!(cell.get("globex", "/").send().await.unwrap().status(), 200);
        let refused = cell.get("globex", "/search").send().await.unwrap();
        let load = refused.headers()["endpoint-load-metrics"].to_str().unwrap().to_owned();
        assert!(load.ends_with("named_metrics.search=1.000"), "{load}");
        let number = |name: &str| {
            let mut entries = load.trim_start_matches("TEXT ").split(", ");
            entries.find_map(|entry| entry.strip_prefix(name)?.parse::<f64>().ok()).unwrap()
        };
        let report = cell.saturation().await;
        let rate = |class: &str, name: &str| {
            let class = report["classes"].as_array().unwrap().iter().find(|it| it["class"] == class).unwrap();
            class[name].as_f64().unwrap()
        };
        let cell = ["rps", "eps"].map(|name| report[name].as_f64().unwrap());
        let classes = [rate("search", "reject_rate"), rate("default", "grant_rate")];
        let told = [number("rps_fractional="), number("eps=")];
        [cell, classes, told].as_flattened().iter().all(|rate| *rate > 0.0)
    })
    .await;
    backend.release(1);
    assert_eq!(held.await.unwrap().status(), 200);
    eventually(async || cell.saturation().await["rps"] == 0.0).await;
}

#[tokio::test]
async fn a_request_is_counted_by_class_and_outcome_with_its_duration() {
    let backend = TestBackend::start();
    let cell = cell(&backend, "{ classes: { search: {}, reports: {} } }");
    assert_eq!(cell.get("acme", "/search").send().await.unwrap().status(), 200);
    cell.until_metric(r#"cofferdam_agent_requests_total{class="search",outcome="served"} 1"#).await;
    cell.until_metric(r#"cofferdam_agent_request_duration_seconds_count{class="search"} 1"#).await;
}

// P52
#[tokio::test]
async fn who_comes_behind_many_of_another_tenants_is_served_before_them() {
    let backend = TestBackend::start();
    let cell = cell(
        &backend,
        "{ max_in_flight: 1, tenant_share: 1,
           classes: { search: { queue: 40, max_wait: 60s }, reports: {}, default: {} } }",
    );
    let noisy: Vec<_> = (0..31).map(|_| cell.go("noisy", "/search/hold")).collect();
    cell.until("search", "queued", 30).await;
    let calm = cell.go("calm", "/search/hold");
    cell.until("search", "queued", 31).await;
    backend.release(3);
    assert_eq!(calm.await.unwrap().status(), 200);
    assert!(cell.class("search").await["queued"].as_u64() >= Some(28), "they came first, and wait still");
    backend.release(29);
    for each in noisy {
        assert_eq!(each.await.unwrap().status(), 200);
    }
}
