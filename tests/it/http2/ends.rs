//! How streams and their connections end: by the cell, by the client, by the drain.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_router::Settings;
use h2::Reason;
use http::Method;

use super::before;
use super::client::{Client, finish, get, request, reset};
use crate::support::files::alone;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};
use crate::support::within;

async fn cell() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        "/slow" => Play::Late(Duration::from_millis(500), ok("slow")),
        "/declared" => Play::Last(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome".to_vec()),
        "/chunked" => {
            Play::Last(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n".to_vec())
        }
        _ => Play::Answer(ok("fast")),
    })
    .await
}

#[tokio::test]
async fn a_truncated_answer_resets_its_stream_and_no_other() {
    let cell = cell().await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let (slow, _) = client.begin(get("/slow", "acme"), true).await;
    for path in ["/declared", "/chunked"] {
        assert_eq!(reset(client.ask(get(path, "acme")).await), Reason::INTERNAL_ERROR);
    }
    assert_eq!(finish(slow).await.unwrap().text(), "slow");
    router.idle().await;
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"failed\""]), 2.0);
}

#[tokio::test]
async fn a_reset_stream_gives_everything_back_and_its_connection_goes_on() {
    let cell = cell().await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    // Before an answer.
    let (answer, mut stream) = client.begin(get("/hang", "acme"), true).await;
    router.in_flight(1).await;
    stream.send_reset(Reason::CANCEL);
    drop(answer);
    router.idle().await;
    // In the middle of an upload.
    let (_answer, mut stream) = client.begin(request(Method::POST, "/", "acme"), false).await;
    stream.send_data(Bytes::from_static(b"half"), false).unwrap();
    router.in_flight(1).await;
    stream.send_reset(Reason::CANCEL);
    router.idle().await;
    assert_eq!(client.ask(get("/", "acme")).await.unwrap().text(), "fast");
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"client_gone\""]), 2.0);
}

#[tokio::test]
async fn a_connection_that_is_cut_gives_back_what_its_streams_held() {
    let cell = cell().await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(client.begin(get("/hang", "acme"), true).await);
    }
    router.in_flight(5).await;
    client.cut();
    within("all is given back", router.idle()).await;
    drop(open);
}

#[tokio::test]
async fn a_drain_finishes_what_is_open_and_takes_nothing_new() {
    let cell = cell().await;
    let router = before(&cell);
    let mut idle = Client::connect(router.data).await;
    assert_eq!(idle.ask(get("/", "acme")).await.unwrap().text(), "fast");
    let mut busy = Client::connect(router.data).await;
    let (answer, _) = busy.begin(get("/slow", "acme"), true).await;
    router.in_flight(1).await;
    let leaving = tokio::spawn(router.router.shutdown());
    idle.ended().await.unwrap();
    assert_eq!(finish(answer).await.unwrap().text(), "slow");
    busy.ended().await.unwrap();
    within("the router to leave", leaving).await.unwrap();
}

#[tokio::test]
async fn at_the_drains_deadline_what_is_left_is_cut() {
    let cell = cell().await;
    let settings = Settings { drain_deadline: Duration::from_millis(300), ..settings() };
    let router = TestRouter::with(&alone(cell.address, ""), settings, 1);
    let mut stuck = Client::connect(router.data).await;
    let (answer, _) = stuck.begin(get("/hang", "acme"), true).await;
    router.in_flight(1).await;
    within("the router to leave", router.router.shutdown()).await;
    finish(answer).await.unwrap_err();
}
