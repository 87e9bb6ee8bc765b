//! What an agent takes from whom, what it hands on, and what it lets nobody say in its place.

use std::time::Duration;

use cofferdam_model::{Alphabet, ClassName, Digest, Hop, Resort, Revision, TenantId};
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::support::{TestBackend, TestCell};

const SECTIONS: &str = "
routes:
  - { match: { path: /search }, class: search, timeout: 20s }
  - { match: { path: / }, class: default }
cell: { classes: { search: {}, checkout: {} } }
";

/// What a router says about a request.
fn with_hop(request: RequestBuilder, class: &str) -> RequestBuilder {
    let mut fields = HeaderMap::new();
    let hop = Hop {
        tenant: TenantId::parse(b"acme", &Alphabet::default()).unwrap(),
        class: ClassName::parse(class).unwrap(),
        attempt: 2,
        resort: Resort::Another,
        remaining: Duration::from_secs(10),
        revision: Revision(1),
        digest: Digest(7),
    };
    hop.write(&mut fields);
    request.headers(fields)
}

async fn seen_by_backend(request: RequestBuilder) -> Value {
    let text = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_routers_hop_is_taken_and_handed_on() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let fields = seen_by_backend(with_hop(cell.get("", "/search/fields"), "checkout")).await;
    assert_eq!(fields["cofferdam-tenant"], "acme");
    assert_eq!(fields["cofferdam-class"], "checkout");
    assert_eq!(fields["cofferdam-attempt"], "2");
    let remaining: u64 = fields["cofferdam-remaining-ms"].as_str().unwrap().parse().unwrap();
    assert!((1..=10_000).contains(&remaining), "{remaining}");
    assert_eq!(fields.get("cofferdam-digest"), None, "the placement is none of a backend's business");
    assert_eq!(cell.class("checkout").await["granted"], 1);
}

// P39
#[tokio::test]
async fn a_strangers_class_is_ignored() {
    let backend = TestBackend::start();
    let cell = TestCell::start_with(backend.address, SECTIONS, |settings| {
        settings.trusted_routers = "10.0.0.0/8".parse().unwrap();
    });
    let request = with_hop(cell.get("", "/search/fields"), "checkout").header("x-forwarded-for", "6.6.6.6");
    // One that was believed would be refused for it.
    let request = request.header("cofferdam-resort", "shed");
    let fields = seen_by_backend(request).await;
    assert_eq!(fields["cofferdam-class"], "search");
    assert_eq!(fields["cofferdam-attempt"], "1");
    assert_eq!(fields["x-forwarded-for"], "127.0.0.1");
    assert_eq!(cell.class("checkout").await["granted"], 0);
    cell.until_metric("cofferdam_agent_untrusted_hops_total 1").await;
    assert_eq!(cell.saturation().await["router"], Value::Null);
    assert_eq!(cell.get("acme", "/").send().await.unwrap().status(), 200);
    cell.until_metric("cofferdam_agent_untrusted_hops_total 1").await;
}

#[tokio::test]
async fn what_the_last_router_routed_by_is_shown() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    assert_eq!(cell.saturation().await["router"], Value::Null);
    seen_by_backend(with_hop(cell.get("", "/fields"), "checkout")).await;
    let router = serde_json::json!({ "revision": 1, "digest": "0000000000000007" });
    assert_eq!(cell.saturation().await["router"], router);
    let unreadable = with_hop(cell.get("", "/fields"), "checkout").header("cofferdam-digest", "8");
    assert_eq!(seen_by_backend(unreadable).await["cofferdam-class"], "default");
    assert_eq!(cell.saturation().await["router"], router, "a hop that is not whole says nothing");
}

#[tokio::test]
async fn a_cells_id_in_anothers_via_is_no_loop() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let request = cell.get("acme", "/fields").header("via", "1.1 cell-a, 1.1 cofferdam-test");
    let fields = seen_by_backend(request).await;
    assert_eq!(fields["via"], "1.1 cell-a, 1.1 cofferdam-test, 1.1 cofferdam-test+cell-a");
}

#[tokio::test]
async fn hop_by_hop_fields_end_here_and_a_client_nominates_none_of_ours_away() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let request = cell
        .get("acme", "/fields")
        .header("connection", "x-private, cofferdam-tenant, cofferdam-class")
        .header("x-private", "1")
        .header("te", "gzip")
        .header("cofferdam-surprise", "1")
        .header("x-kept", "1");
    let fields = seen_by_backend(request).await;
    assert_eq!(fields["cofferdam-tenant"], "acme");
    assert_eq!(fields["cofferdam-class"], "default");
    assert_eq!(fields["x-kept"], "1");
    assert_eq!(fields["via"], "1.1 cofferdam-test+cell-a");
    for gone in ["x-private", "te", "cofferdam-surprise"] {
        assert_eq!(fields.get(gone), None, "{gone}");
    }
}

#[tokio::test]
async fn a_backend_says_nothing_in_the_agents_place() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let answer = cell.get("acme", "/forged").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers().get("cofferdam-refused"), None);
    assert_eq!(answer.headers().get("x-private"), None);
    assert_eq!(answer.headers()["x-kept"], "1");
    let loads: Vec<_> = answer.headers().get_all("endpoint-load-metrics").iter().collect();
    assert_eq!(loads.len(), 1);
    assert!(loads[0].to_str().unwrap().contains("named_metrics.checkout=0.000"), "{loads:?}");
}

#[tokio::test]
async fn what_a_request_cost_is_told_to_routers_alone() {
    let backend = TestBackend::start();
    let router = TestCell::start(backend.address, SECTIONS);
    let stranger = TestCell::start_with(backend.address, SECTIONS, |settings| {
        settings.trusted_routers = "10.0.0.0/8".parse().unwrap();
    });
    let cost = async |cell: &TestCell| {
        let answer = cell.get("acme", "/forged").send().await.unwrap();
        answer.headers().get("cofferdam-cost").map(|cost| cost.to_str().unwrap().to_owned())
    };
    assert_eq!(cost(&router).await.as_deref(), Some("30"));
    assert_eq!(cost(&stranger).await, None);
}

#[tokio::test]
async fn a_request_without_exactly_one_usable_tenant_is_400_and_never_served() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let none = cell.client.get(format!("http://{}/", cell.data));
    let twice = cell.get("acme", "/").header("cofferdam-tenant", "globex");
    for bad in [none, twice, cell.get("", "/"), cell.get("{acme}", "/"), cell.get(&"a".repeat(65), "/")] {
        let answer = bad.send().await.unwrap();
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    assert_eq!(backend.n_entered(), 0);
    cell.until_metric("cofferdam_agent_unclassified_total 5").await;
}

#[tokio::test]
async fn every_answer_carries_the_load_report() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, SECTIONS);
    let trace = cell.client.request(reqwest::Method::TRACE, format!("http://{}/", cell.data));
    for (request, status) in [
        (cell.get("acme", "/"), 200),
        (cell.client.head(format!("http://{}/", cell.data)).header("cofferdam-tenant", "acme"), 200),
        (cell.get("acme", "/missing"), 404),
        (cell.get("{}", "/"), 400),
        (trace.header("cofferdam-tenant", "acme"), 405),
        (cell.get("acme", "/").header("via", "1.1 cofferdam-test+cell-a"), 508),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status);
        let load = answer.headers()["endpoint-load-metrics"].to_str().unwrap();
        assert!(cofferdam_model::Report::parse(load).is_ok(), "{load}");
    }
}
