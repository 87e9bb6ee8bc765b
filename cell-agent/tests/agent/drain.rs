//! Leaving in good order.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::support::{TestBackend, TestCell, eventually, probe, refusal};

// P31
#[tokio::test]
async fn a_drain_finishes_what_is_in_flight_and_sends_who_waits_to_the_other_cell() {
    let backend = TestBackend::start();
    let cell = TestCell::start(
        backend.address,
        "cell: { tenant_share: 1, classes: { default: { ceiling: 1, queue: 1, max_wait: 60s } } }",
    );
    let held = cell.go("acme", "/hold");
    backend.entered(1).await;
    let waiting = cell.go("globex", "/");
    cell.until("default", "queued", 1).await;

    let TestCell { data, probes, client, running, .. } = cell;
    let leaving = tokio::spawn(running.shutdown());
    let refused = waiting.await.unwrap();
    assert_eq!(refusal(&refused), (503, "cell"));
    assert_eq!(probe(&client, probes, "/readyz").await, (503, "draining\n".to_owned()));
    let metrics = probe(&client, probes, "/metrics").await.1;
    let none = r#"cofferdam_agent_refusals_total{class="default",reason="cell"} 0"#;
    assert!(metrics.contains(none), "closing is not a refusal by the compartments: {metrics}");
    let counted = |outcome: &str, n: u32| {
        let line = format!("cofferdam_agent_requests_total{{class=\"default\",outcome=\"{outcome}\"}} {n}");
        assert!(metrics.lines().any(|each| each == line), "{line} is not in {metrics}");
    };
    counted("refused", 0);
    counted("draining", 1);
    eventually(async || TcpStream::connect(data).await.is_err()).await;
    assert!(!leaving.is_finished(), "one is still in flight");

    backend.release(1);
    assert_eq!(held.await.unwrap().text().await.unwrap(), "held");
    leaving.await.unwrap();
}

#[tokio::test]
async fn while_it_is_leaving_readiness_is_off_and_requests_are_served() {
    let backend = TestBackend::start();
    let cell = TestCell::start_with(backend.address, "", |settings| {
        settings.drain_grace = Duration::from_secs(3600);
    });
    eventually(async || cell.probe("/readyz").await.0 == 200).await;
    let TestCell { data, probes, client, running, .. } = cell;
    let leaving = tokio::spawn(running.shutdown());
    eventually(async || probe(&client, probes, "/readyz").await == (503, "draining\n".to_owned())).await;
    let url = format!("http://{data}/");
    let answer = client.get(url).header("cofferdam-tenant", "acme").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    leaving.abort();
}

#[tokio::test]
async fn what_is_in_flight_at_the_deadline_is_cut() {
    let backend = TestBackend::start();
    let cell = TestCell::start_with(backend.address, "", |settings| settings.drain_deadline = Duration::ZERO);
    let request = cell.get("acme", "/hold");
    let held = tokio::spawn(request.send());
    backend.entered(1).await;
    cell.running.shutdown().await;
    held.await.unwrap().unwrap_err();
}
