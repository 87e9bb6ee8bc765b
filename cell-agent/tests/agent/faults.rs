//! What a backend may do, and what the router is told of it.

use std::time::Duration;

use reqwest::Response;

use crate::support::{Step, TestBackend, TestCell, any_port, eventually, refusal, scripted};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn fault(answer: &Response) -> (u16, Option<&str>) {
    assert!(answer.headers().contains_key("endpoint-load-metrics"));
    let fault = answer.headers().get("cofferdam-fault").map(|value| value.to_str().unwrap());
    (answer.status().as_u16(), fault)
}

#[tokio::test]
async fn a_backend_that_is_gone_is_the_cell_and_readiness_says_so_until_it_is_back() {
    let listener = any_port();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let cell = TestCell::start(address, "");
    assert_eq!(refusal(&cell.get("acme", "/").send().await.unwrap()), (503, "cell"));
    eventually(async || cell.probe("/readyz").await.1.starts_with("backend is gone: ")).await;
    assert_eq!(cell.probe("/readyz").await.0, 503);
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="unreachable"} 1"#).await;
    assert_eq!(cell.class("default").await["used"], 0);

    let backend = TestBackend::on(cofferdam_proxy::listen::one(address).unwrap());
    eventually(async || cell.probe("/readyz").await.0 == 200).await;
    assert_eq!(cell.get("acme", "/").send().await.unwrap().status(), 200);
    backend.stop().await;
    eventually(async || cell.probe("/readyz").await.0 == 503).await;
}

#[tokio::test]
async fn an_answer_that_never_comes_is_502_and_told_as_lost() {
    let cell = TestCell::start(scripted(vec![vec![Step::WriteAndClose("")]]), "");
    assert_eq!(fault(&cell.get("acme", "/").send().await.unwrap()), (502, Some("lost")));
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="lost"} 1"#).await;
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_502_and_not_told_as_lost() {
    let nonsense = Step::WriteAndClose("nonsense\r\n\r\n");
    let upgraded = Step::WriteAndClose("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    let cell = TestCell::start(scripted(vec![vec![nonsense], vec![upgraded]]), "");
    for _ in 0..2 {
        assert_eq!(fault(&cell.get("acme", "/").send().await.unwrap()), (502, None));
    }
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="malformed"} 2"#).await;
}

#[tokio::test]
async fn a_reused_connection_that_dies_unanswered_gets_an_idempotent_request_a_fresh_one() {
    let stale = vec![Step::Write(OK), Step::WriteAndClose("")];
    let cell = TestCell::start(scripted(vec![stale, vec![Step::Write(OK)]]), "");
    for _ in 0..2 {
        assert_eq!(cell.get("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
    }
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="served"} 2"#).await;
}

#[tokio::test]
async fn a_post_that_was_written_is_never_sent_twice() {
    let stale = vec![Step::Write(OK), Step::WriteAndClose("")];
    let cell = TestCell::start(scripted(vec![stale, vec![Step::Write(OK)]]), "");
    assert_eq!(cell.get("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
    // A new connection stands, so most likely the old one was closed for its age; that one serves the next.
    assert_eq!(fault(&cell.post("acme", "/").send().await.unwrap()), (502, Some("stale")));
    assert_eq!(cell.post("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
}

#[tokio::test]
async fn a_kept_connection_that_breaks_long_after_a_request_was_not_closed_for_its_age() {
    let died = vec![Step::Write(OK), Step::WriteAndClose("")];
    let backend = scripted(vec![died, vec![Step::Write(OK)]]);
    let cell = TestCell::start_with(backend, "", |settings| settings.upstream.aged = Duration::ZERO);
    assert_eq!(cell.get("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
    // Whoever listens may be the next process, behind a supervisor's socket.
    assert_eq!(fault(&cell.post("acme", "/").send().await.unwrap()), (502, Some("lost")));
    assert_eq!(cell.post("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
}

#[tokio::test]
async fn an_answer_that_may_last_counts_its_own_place_in_its_report_and_a_short_one_does_not() {
    let streams = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let backend = scripted(vec![vec![Step::Write(OK), Step::Write(streams)]]);
    let cell = TestCell::start(backend, "cell: { max_in_flight: 1 }");
    for saturation in ["utilization=0.000,", "utilization=1.000,"] {
        let answer = cell.get("acme", "/").send().await.unwrap();
        let said = answer.headers()["endpoint-load-metrics"].to_str().unwrap().to_owned();
        assert!(said.contains(saturation), "{said}");
        answer.text().await.unwrap();
        eventually(async || cell.class("default").await["used"] == 0).await;
    }
}

#[tokio::test]
async fn a_post_finds_a_fresh_connection_where_the_backend_closed_the_idle_one() {
    let cell = TestCell::start(scripted(vec![vec![Step::WriteAndClose(OK)], vec![Step::Write(OK)]]), "");
    assert_eq!(cell.get("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
    assert_eq!(cell.post("acme", "/").send().await.unwrap().text().await.unwrap(), "ok");
}
