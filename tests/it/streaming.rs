//! Bodies go both ways as they come, and no faster than the other side takes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cofferdam_proxy::replay::BodyLimits;
use cofferdam_router::Settings;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, alone};
use crate::support::message::{read_head, read_part};
use crate::support::raw::{self, chunk, get, with_fields};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn before(cell: &Scripted) -> TestRouter {
    TestRouter::start(&alone(cell.address, ""))
}

#[tokio::test]
async fn a_chunk_is_there_before_the_backend_has_finished() {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let waiting = Arc::clone(&go_on);
    let cell = Scripted::raw(move |mut stream: TcpStream, _| {
        let waiting = Arc::clone(&waiting);
        async move {
            read_head(&mut BufReader::new(&mut stream)).await.unwrap();
            stream.write_all(&[CHUNKED.as_bytes(), &chunk(b"first")].concat()).await.unwrap();
            waiting.notified().await;
            stream.write_all(&[chunk(b"second"), chunk(b"")].concat()).await.unwrap();
        }
    })
    .await;
    let router = before(&cell).await;
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    let mut framing = client.head().await.response_framing(false);
    assert_eq!(client.part(&mut framing).await.unwrap(), b"first");
    go_on.notify_one();
    assert_eq!(client.part(&mut framing).await.unwrap(), b"second");
    assert_eq!(client.part(&mut framing).await.unwrap(), b"");
    router.idle().await;
}

/// Echoes a chunked body, chunk by chunk.
async fn echo(stream: TcpStream, _: usize) {
    let mut stream = BufReader::new(stream);
    let Ok(Some(head)) = read_head(&mut stream).await else { return };
    let mut framing = head.request_framing();
    stream.write_all(CHUNKED.as_bytes()).await.unwrap();
    loop {
        let part = read_part(&mut stream, &mut framing).await.unwrap();
        stream.write_all(&chunk(&part)).await.unwrap();
        if part.is_empty() {
            return;
        }
    }
}

#[tokio::test]
async fn an_upload_is_echoed_while_it_is_still_being_sent() {
    let cell = Scripted::raw(echo).await;
    let router = before(&cell).await;
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", "transfer-encoding: chunked\r\n")).await;
    client.send(chunk(b"0")).await;
    let mut framing = client.head().await.response_framing(false);
    assert_eq!(client.part(&mut framing).await.unwrap(), b"0");
    for n in 1..20 {
        let text = n.to_string();
        client.send(chunk(text.as_bytes())).await;
        assert_eq!(client.part(&mut framing).await.unwrap(), text.as_bytes());
    }
    client.send(chunk(b"")).await;
    assert_eq!(client.part(&mut framing).await.unwrap(), b"");
    router.idle().await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_holds_the_backend_back_and_little_memory() {
    // P16: bytes in flight are bounded by what the sockets and a few buffers hold.
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let cell = Scripted::raw(move |mut stream: TcpStream, _| {
        let counter = Arc::clone(&counter);
        async move {
            read_head(&mut BufReader::new(&mut stream)).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 268435456\r\n\r\n").await.unwrap();
            let block = vec![b'x'; 64 * 1024];
            while stream.write_all(&block).await.is_ok() {
                counter.fetch_add(block.len() as u64, Ordering::SeqCst);
            }
        }
    })
    .await;
    let router = before(&cell).await;
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    let mut framing = client.head().await.response_framing(false);
    let mut last = 0;
    let stalled_at = eventually("the backend to be held back", async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = sent.load(Ordering::SeqCst);
        (now > 0 && now == std::mem::replace(&mut last, now)).then_some(now)
    })
    .await;
    // Four socket buffers of a few megabytes each, and the router's own.
    assert!(
        stalled_at < 64 << 20,
        "{stalled_at} bytes were taken from the backend for a client that read nothing"
    );
    let mut read = 0;
    while read <= stalled_at {
        read += client.part(&mut framing).await.unwrap().len() as u64;
    }
    drop(client);
    router.idle().await;
}

#[tokio::test]
async fn a_backend_that_reads_slowly_holds_the_client_back() {
    // P16. A client's end behind more than the kernel takes is not heard of: the route's timeout ends such a request. A
    // reset is heard of, and so is an end that the kernel has taken.
    let cell = Scripted::raw(|mut stream: TcpStream, _| async move {
        read_head(&mut BufReader::with_capacity(64, &mut stream)).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let body = BodyLimits { max_bytes: 1 << 30, ..BodyLimits::default() };
    let text = alone(cell.address, "routes: [{ match: { path: / }, class: default, timeout: 2s }]\n");
    let router = TestRouter::with(&text, Settings { body, ..settings() }, 1);
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", "content-length: 500000000\r\n")).await;
    let block = vec![b'x'; 1 << 20];
    let mut pushed = 0;
    while tokio::time::timeout(Duration::from_millis(500), client.try_send(&block)).await.is_ok() {
        pushed += 1;
        assert!(pushed < 64, "{pushed} MiB were taken for a backend that reads nothing");
    }
    drop(client);
    router.idle().await;
}

#[tokio::test]
async fn a_truncated_answer_of_the_backends_breaks_ours_off() {
    let chunked = [CHUNKED.as_bytes(), &chunk(b"some")].concat();
    let declared = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome".to_vec();
    for script in [chunked, declared] {
        let cell = Scripted::start(move |_| Play::Last(script.clone())).await;
        let router = before(&cell).await;
        let mut client = raw::Client::connect(router.data).await;
        let answer = client.ask(get("/", "acme")).await;
        assert_eq!((answer.status(), answer.text().as_str(), answer.whole), (200, "some", false));
        assert_eq!(client.rest().await, b"", "the connection must not be used again");
        router.idle().await;
        let metrics = router.metrics().await;
        assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"failed\""]), 1.0);
    }
}

#[tokio::test]
async fn large_bodies_pass_whole_through_router_and_agent() {
    let fleet = TestFleet::start(PINS).await;
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let answer = fleet.router.ask(raw::post("/", "acme", &body)).await;
    assert_eq!(answer.status(), 200);
    assert!(fleet.cells[0].backend.only().body == body);
    let mut chunked = with_fields("POST", "/", "acme", "transfer-encoding: chunked\r\n").into_bytes();
    for part in body.chunks(50_000) {
        chunked.extend(chunk(part));
    }
    chunked.extend(chunk(b""));
    assert_eq!(fleet.router.ask(chunked).await.status(), 200);
    assert!(fleet.cells[0].backend.seen()[1].body == body);
    fleet.idle().await;
}
