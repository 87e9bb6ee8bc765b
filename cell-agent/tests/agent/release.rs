//! A place is held to the end of the answer's body, and given back once, however the request ends.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Step, TestBackend, TestCell, eventually, refusal, scripted};

const ONE_PLACE: &str = "cell: { tenant_share: 1, classes: { default: { ceiling: 1, queue: 0 } } }";

#[tokio::test]
async fn a_place_is_held_until_the_end_of_the_body() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, ONE_PLACE);
    let mut answer = cell.get("acme", "/stream").send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "chunk");
    assert_eq!(refusal(&cell.get("acme", "/").send().await.unwrap()), (503, "class"));
    backend.release(1);
    assert_eq!(answer.text().await.unwrap(), "chunk");
    cell.until("default", "used", 0).await;
    assert_eq!(cell.get("acme", "/").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_stream_gives_its_place_back() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, ONE_PLACE);
    let mut stream = TcpStream::connect(cell.data).await.unwrap();
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(5).any(|bytes| bytes == b"chunk") {
        stream.read_buf(&mut seen).await.unwrap();
    }
    assert_eq!(cell.class("default").await["used"], 1);
    drop(stream);
    cell.until("default", "used", 0).await;
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="client_gone"} 1"#).await;
}

#[tokio::test]
async fn a_client_that_goes_before_the_answer_or_in_the_queue_leaves_nothing_behind() {
    let backend = TestBackend::start();
    let cell = TestCell::start(
        backend.address,
        "cell: { tenant_share: 1, classes: { default: { ceiling: 1, queue: 1, max_wait: 60s } } }",
    );
    let served = cell.go("acme", "/hold");
    backend.entered(1).await;
    let waiting = cell.go("acme", "/hold");
    cell.until("default", "queued", 1).await;
    waiting.abort();
    cell.until("default", "queued", 0).await;
    served.abort();
    cell.until("default", "used", 0).await;
    assert_eq!(backend.n_entered(), 1);
}

#[tokio::test]
async fn a_backend_that_breaks_off_in_the_body_breaks_off_ours_and_frees_the_place() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let cell = TestCell::start(scripted(vec![vec![Step::WriteAndClose(half)]]), ONE_PLACE);
    let answer = cell.get("acme", "/").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.bytes().await.unwrap_err();
    cell.until("default", "used", 0).await;
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="truncated"} 1"#).await;
}

// P13
#[tokio::test]
async fn a_place_is_back_when_the_deadline_passes() {
    let backend = TestBackend::start();
    let cell = TestCell::start(
        backend.address,
        &format!("routes: [{{ match: {{ path: / }}, class: default, timeout: 50ms }}]\n{ONE_PLACE}"),
    );
    let late = cell.get("acme", "/hold").send().await.unwrap();
    assert_eq!(late.status(), 504);
    assert!(late.headers().contains_key("endpoint-load-metrics"));
    cell.until("default", "used", 0).await;
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="deadline"} 1"#).await;
}

#[tokio::test]
async fn a_body_over_its_bound_is_413_whether_or_not_it_is_declared() {
    let backend = TestBackend::start();
    let cell = TestCell::start_with(backend.address, ONE_PLACE, |settings| settings.body.max_bytes = 4);
    let declared = cell.post("acme", "/").body("12345").send().await.unwrap();
    assert_eq!(declared.status(), 413);
    assert_eq!(cell.class("default").await["granted"], 0, "a declared length needs no place");
    let mut chunked = TcpStream::connect(cell.data).await.unwrap();
    let head =
        "POST /hold HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\ntransfer-encoding: chunked\r\n\r\n";
    chunked.write_all(head.as_bytes()).await.unwrap();
    chunked.write_all(b"5\r\n12345\r\n").await.unwrap();
    let mut answer = Vec::new();
    eventually(async || {
        chunked.read_buf(&mut answer).await.unwrap();
        answer.starts_with(b"HTTP/1.1 413 ")
    })
    .await;
    cell.until("default", "used", 0).await;
    assert_eq!(cell.post("acme", "/").body("1234").send().await.unwrap().text().await.unwrap(), "1234");
}

#[tokio::test]
async fn a_body_that_stands_still_is_408() {
    let backend = TestBackend::start();
    let cell = TestCell::start_with(backend.address, ONE_PLACE, |settings| {
        settings.body.idle = Duration::from_millis(20);
    });
    let mut slow = TcpStream::connect(cell.data).await.unwrap();
    let head = "POST /hold HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\ncontent-length: 4\r\n\r\n12";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    eventually(async || {
        slow.read_buf(&mut answer).await.unwrap();
        answer.starts_with(b"HTTP/1.1 408 ")
    })
    .await;
    cell.until("default", "used", 0).await;
}
