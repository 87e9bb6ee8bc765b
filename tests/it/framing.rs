//! Where one message ends and the next begins: the same on both sides, or refused.

use crate::support::files::alone;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, ok};

/// A request in which `fields` are lines, each with its end.
fn request(version: &str, fields: &str, body: &str) -> String {
    format!("POST / HTTP/{version}\r\nhost: x\r\nx-tenant-id: acme\r\n{fields}\r\n{body}")
}

#[tokio::test]
async fn framing_that_can_be_read_in_two_ways_is_refused() {
    let cell = Scripted::named("cell").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\n\r\n";
    for sent in [
        request("1.1", "content-length: 3\r\ncontent-length: 4\r\n", "body"),
        request("1.1", "content-length: 3, 4\r\n", "body"),
        request("1.1", "content-length: +3\r\n", "abc"),
        request("1.1", "content-length: 0x3\r\n", "abc"),
        request("1.1", "transfer-encoding: gzip\r\n", smuggled),
        request("1.1", "transfer-encoding: chunked, gzip\r\n", smuggled),
        request("1.1", "transfer-encoding: xchunked\r\n", smuggled),
        request("1.0", "transfer-encoding: chunked\r\n", smuggled),
        request("1.1", "content-length : 3\r\n", "abc"),
        request("1.1", "x: a\r\n folded\r\n", ""),
        request("1.1", "x: a\rb\r\n", ""),
        request("1.1", "x: a\0b\r\n", ""),
    ] {
        let mut client = raw::Client::connect(router.data).await;
        let answer = client.ask(&sent).await;
        assert_eq!(answer.status(), 400, "{sent:?}");
        let rest = client.rest().await;
        assert!(rest.is_empty(), "{sent:?} had a second answer: {:?}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(cell.seen().len(), 0);
    router.idle().await;
}

#[tokio::test]
async fn a_length_beside_chunked_is_dropped_and_the_connection_closed() {
    let cell = Scripted::named("cell").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let fields = "content-length: 4\r\ntransfer-encoding: chunked\r\n";
    let smuggled = "3\r\nabc\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\n\r\n";
    let mut client = raw::Client::connect(router.data).await;
    let answer = client.ask(request("1.1", fields, smuggled)).await;
    if answer.status() == 200 {
        let seen = cell.seen();
        assert_eq!((seen[0].body.as_slice(), seen[0].head.field("content-length")), (&b"abc"[..], None));
    }
    assert_eq!(client.rest().await, b"", "nothing more is read from such a connection");
    assert!(cell.seen().len() <= 1);
}

#[tokio::test]
async fn what_a_cell_sends_beyond_its_answer_reaches_nobody() {
    // P39: one tenant's answer must never become another's.
    let poisoned = [ok("first"), ok("of somebody else")].concat();
    let cell = Scripted::start(move |_| Play::Answer(poisoned.clone())).await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let mut client = raw::Client::connect(router.data).await;
    for n in 0..50 {
        let tenant = ["acme", "globex"][n % 2];
        let answer = client.ask(get("/", tenant)).await;
        assert!(answer.status() == 502 || answer.text() == "first", "request {n}: {answer:?}");
    }
    router.idle().await;
}

#[tokio::test]
async fn early_hints_are_relayed_and_a_continue_that_nobody_asked_for_is_not() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let answer = [interim.as_bytes(), &ok("final")].concat();
    let cell = Scripted::start(move |_| Play::Answer(answer.clone())).await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let mut client = raw::Client::connect(router.data).await;
    for _ in 0..3 {
        let hints = client.ask(get("/", "acme")).await;
        assert_eq!((hints.status(), hints.field("link")), (103, Some("</a>")));
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.text().as_str(), answer.field("link")), (200, "final", None));
    }
    assert_eq!(cell.n_connections(), 1);
}

#[tokio::test]
async fn a_cells_length_beside_chunked_is_dropped() {
    let both =
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n";
    let cell = Scripted::start(|_| Play::Answer(both.to_vec())).await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!(
        (answer.status(), answer.text().as_str(), answer.field("content-length")),
        (200, "four", None)
    );
}

#[tokio::test]
async fn a_cells_coding_that_is_not_understood_is_502() {
    for coding in ["gzip", "gzip, chunked", "chunked, gzip"] {
        let bytes = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n4\r\nfour\r\n0\r\n\r\n");
        let cell = Scripted::start(move |_| Play::Last(bytes.clone().into_bytes())).await;
        let router = TestRouter::start(&alone(cell.address, ""));
        assert_eq!(router.ask(get("/", "acme")).await.status(), 502, "{coding}");
    }
}

#[tokio::test]
async fn an_old_client_gets_no_chunks_and_its_connection_ends_the_body() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n";
    let cell = Scripted::start(|_| Play::Answer(chunked.to_vec())).await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let old = "GET / HTTP/1.0\r\nhost: x\r\nx-tenant-id: acme\r\n\r\n";
    let answer = router.ask(old).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "four"));
    assert_eq!(answer.field("transfer-encoding"), None);
}

#[tokio::test]
async fn heads_beyond_the_bounds_are_431_and_414() {
    let cell = Scripted::named("cell").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let many: String = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect();
    let large = format!("x-large: {}\r\n", "a".repeat(40_000));
    for fields in [many, large] {
        assert_eq!(router.ask(raw::with_fields("GET", "/", "acme", &fields)).await.status(), 431);
    }
    let long = |n: usize| raw::get(&format!("/{}", "a".repeat(n - 1)), "acme");
    assert_eq!(router.ask(long(8193)).await.status(), 414);
    assert_eq!(cell.n_connections(), 0);
    assert_eq!(router.ask(long(8192)).await.status(), 200);
}
