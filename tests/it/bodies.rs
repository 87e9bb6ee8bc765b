//! Bounds on request bodies, and when a body is asked for at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cofferdam_proxy::replay::BodyLimits;
use cofferdam_router::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::files::{PINS, alone, fleet};
use crate::support::message::read_head;
use crate::support::raw::{self, chunk, get, post, with_fields};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Refusing, Scripted, answer};
use crate::support::{eventually, within};

const CONTINUE: &str = "expect: 100-continue\r\ncontent-length: 5\r\n";

fn router(cell: &Scripted, body: BodyLimits, rest: &str) -> TestRouter {
    let text = alone(cell.address, rest);
    TestRouter::with(&text, Settings { body, ..settings() }, 1)
}

fn at_most(max_bytes: u64) -> BodyLimits {
    BodyLimits { max_bytes, ..BodyLimits::default() }
}

#[tokio::test]
async fn a_declared_body_over_the_limit_is_413_before_any_cell_is_asked() {
    let cell = Scripted::named("cell").await;
    let router = router(&cell, at_most(1000), "");
    let answer = router.ask(post("/", "acme", &[b'x'; 1001])).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (413, "body_too_large"));
    assert_eq!(cell.n_connections(), 0);
    assert_eq!(router.ask(post("/", "acme", &[b'x'; 1000])).await.status(), 200);
    router.idle().await;
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_413_when_it_gets_there() {
    let cell = Scripted::named("cell").await;
    let router = router(&cell, at_most(1000), "");
    let head = with_fields("POST", "/", "acme", "transfer-encoding: chunked\r\n");
    let mut client = raw::Client::connect(router.data).await;
    client.send(&head).await;
    client.send(chunk(&[b'x'; 1000])).await;
    client.send(chunk(b"x")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.problem().as_str()), (413, "body_too_large"));
    router.idle().await;
    let fits = [head.as_bytes(), &chunk(&[b'x'; 1000]), &chunk(b"")].concat();
    assert_eq!(router.ask(fits).await.status(), 200);
    assert_eq!(cell.only().body.len(), 1000);
}

#[tokio::test]
async fn a_refused_request_gets_its_refusal_without_the_body_asked_for() {
    let cell = Scripted::named("cell").await;
    let plan = "plans: { slow: { sustained: 1/h, burst: 1, max_in_flight: 1 } }\ntenant: { unknown: slow }\n";
    let router = router(&cell, at_most(1000), plan);
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
    for (request, status) in [
        (with_fields("POST", "/", "acme", CONTINUE), 429),
        (with_fields("POST", "/", "BAD", CONTINUE), 400),
        (with_fields("POST", "/", "globex", "expect: 100-continue\r\ncontent-length: 1001\r\n"), 413),
    ] {
        // The first head that comes is the refusal's.
        assert_eq!(router.ask(request).await.status(), status);
    }
}

#[tokio::test]
async fn an_admitted_request_is_asked_for_its_body() {
    let cell = Scripted::named("cell").await;
    let router = router(&cell, at_most(1000), "");
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", CONTINUE)).await;
    assert_eq!(client.head().await.second_word(), "100");
    client.send("abcde").await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "cell"));
    assert_eq!(cell.only().body, b"abcde");
}

#[tokio::test]
async fn a_body_that_stands_still_is_408() {
    let cell = Scripted::named("cell").await;
    let limits = BodyLimits { idle: Duration::from_millis(200), ..BodyLimits::default() };
    let router = router(&cell, limits, "");
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", "content-length: 10\r\n") + "half").await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.problem().as_str()), (408, "body_idle"));
    router.idle().await;
}

#[tokio::test]
async fn an_answer_during_the_upload_is_relayed_at_once() {
    let cell = Scripted::raw(|mut stream: TcpStream, _| async move {
        read_head(&mut BufReader::new(&mut stream)).await.unwrap();
        stream.write_all(&answer("413 Payload Too Large", "", "enough")).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let router = router(&cell, BodyLimits::default(), "");
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", "content-length: 9000000\r\n") + "some").await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text().as_str()), (413, "enough"));
    // The cell's connection is half used: the next request gets another.
    drop(client);
    router.idle().await;
    assert_eq!(router.ask(get("/", "acme")).await.status(), 413);
    assert_eq!(cell.n_connections(), 2);
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_its_upload_leaves_nothing_behind() {
    let cell = Scripted::named("cell").await;
    let router = router(&cell, BodyLimits::default(), "");
    for request in [
        with_fields("POST", "/", "acme", "content-length: 10\r\n") + "half",
        with_fields("POST", "/", "acme", "transfer-encoding: chunked\r\n") + "4\r\nhalf\r\n",
    ] {
        let mut client = raw::Client::connect(router.data).await;
        client.send(request).await;
        router.in_flight(1).await;
        drop(client);
        router.idle().await;
    }
    assert_eq!(cell.seen().len(), 0, "half a request is no request");
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_request_at_the_cell() {
    let gone = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&gone);
    let cell = Scripted::raw(move |mut stream: TcpStream, _| {
        let counter = Arc::clone(&counter);
        async move {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
            counter.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let router = router(&cell, BodyLimits::default(), "");
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    router.in_flight(1).await;
    eventually("the request to reach the cell", async || (cell.n_connections() == 1).then_some(())).await;
    drop(client);
    within("all is given back", router.idle()).await;
    let cancelled = async || (gone.load(Ordering::SeqCst) == 1).then_some(());
    eventually("the cell's connection to be closed", cancelled).await;
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"client_gone\""]), 1.0);
}

#[tokio::test]
async fn a_body_is_not_asked_for_before_a_cell_takes_a_connection() {
    let down = [Refusing::new(), Refusing::new()];
    let router = TestRouter::start(&fleet(&down.each_ref().map(|cell| cell.address), PINS));
    // The first head that comes is no 100.
    assert_eq!(router.ask(with_fields("POST", "/", "acme", CONTINUE)).await.status(), 503);
    // One that is up behind one that is down gets the body whole.
    let cell = Scripted::named("cell").await;
    let router = TestRouter::start(&fleet(&[down[0].address, cell.address], PINS));
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", CONTINUE)).await;
    assert_eq!(client.head().await.second_word(), "100");
    client.send("abcde").await;
    assert_eq!(client.answer().await.status(), 200);
    assert_eq!(cell.only().body, b"abcde");
}
