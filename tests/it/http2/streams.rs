//! Many streams on one connection: none waits for another, and each goes no faster than its two ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_router::Settings;
use http::Method;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::before;
use super::client::{Client, finish, get, request, rest, send};
use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, alone};
use crate::support::message::read_head;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};

/// A router that lets a tenant have more in flight than a connection has streams.
fn wide(cell: &Scripted) -> TestRouter {
    let plan = "plans: { wide: { sustained: 1000/s, burst: 1000, max_in_flight: 1000 } }\ntenant: { unknown: wide }\n";
    TestRouter::start(&alone(cell.address, plan))
}

#[tokio::test]
async fn a_hundred_streams_are_open_at_once_and_the_next_waits_for_room() {
    let cell = Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        _ => Play::Answer(ok("fast")),
    })
    .await;
    let router = wide(&cell);
    let mut client = Client::connect(router.data).await;
    assert_eq!(client.ask(get("/", "acme")).await.unwrap().status(), 200);
    let mut open = Vec::new();
    for _ in 0..99 {
        open.push(client.begin(get("/hang", "acme"), true).await);
    }
    router.in_flight(99).await;
    // The hundredth is not behind the others.
    assert_eq!(client.ask(get("/", "acme")).await.unwrap().text(), "fast");
    open.push(client.begin(get("/hang", "acme"), true).await);
    router.in_flight(100).await;
    let waiting = client.ask(get("/", "acme"));
    let (freed, _) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(open.pop());
    });
    assert_eq!(freed.unwrap().text(), "fast");
    client.cut();
    router.idle().await;
}

#[tokio::test]
async fn large_bodies_pass_whole_on_several_streams_at_once() {
    let fleet = TestFleet::start(PINS).await;
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut client = Client::connect(fleet.router.data).await;
    let mut uploads = Vec::new();
    for _ in 0..4 {
        let (answer, mut stream) = client.begin(request(Method::POST, "/", "acme"), false).await;
        let body = Bytes::from(body.clone());
        uploads.push(tokio::spawn(async move {
            send(&mut stream, body, true).await.unwrap();
            finish(answer).await.unwrap().status()
        }));
    }
    for upload in uploads {
        assert_eq!(upload.await.unwrap(), 200);
    }
    let seen = fleet.cells[0].backend.seen();
    assert!(seen.len() == 4 && seen.iter().all(|seen| seen.body == body));
    fleet.idle().await;
}

/// A cell that sends without an end, and counts.
async fn endless(sent: &Arc<AtomicU64>) -> Scripted {
    let sent = Arc::clone(sent);
    Scripted::raw(move |mut stream: TcpStream, _| {
        let sent = Arc::clone(&sent);
        async move {
            let head = read_head(&mut BufReader::new(&mut stream)).await.unwrap().unwrap();
            if head.second_word() != "/endless" {
                stream.write_all(&ok("fast")).await.unwrap();
                return;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 268435456\r\n\r\n").await.unwrap();
            while stream.write_all(&[b'x'; 64 * 1024]).await.is_ok() {
                sent.fetch_add(64 * 1024, Ordering::SeqCst);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_stream_that_is_not_read_holds_its_cell_back_and_no_other_stream() {
    // P16
    let sent = Arc::<AtomicU64>::default();
    let cell = endless(&sent).await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let (answer, _) = client.begin(get("/endless", "acme"), true).await;
    // Within the connection's window, which is the client's own, a stream takes 64 KiB at most.
    let unread = answer.await.unwrap().into_body();
    let mut last = 0;
    let stalled_at = eventually("the cell to be held back", async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = sent.load(Ordering::SeqCst);
        (now > 0 && now == std::mem::replace(&mut last, now)).then_some(now)
    })
    .await;
    assert!(stalled_at < 16 << 20, "{stalled_at} bytes were taken for a stream that is not read");
    drop(unread);
    router.idle().await;
    assert_eq!(client.ask(get("/", "acme")).await.unwrap().text(), "fast");
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_reset_in_time_and_one_that_reads_is_not() {
    let cell = endless(&Arc::default()).await;
    let mut settings = Settings { ..settings() };
    settings.serve.stall = Duration::from_millis(500);
    let router = TestRouter::with(&alone(cell.address, ""), settings, 1);
    let mut client = Client::connect(router.data).await;
    let (answer, _) = client.begin(get("/endless", "acme"), true).await;
    let mut unread = answer.await.unwrap().into_body();
    router.in_flight(1).await;
    // The window is never given back.
    router.idle().await;
    assert!(rest(&mut unread).await.unwrap_err().is_reset());
    let (answer, _) = client.begin(get("/endless", "acme"), true).await;
    let mut read = answer.await.unwrap().into_body();
    let end = tokio::time::Instant::now() + Duration::from_millis(1500);
    while tokio::time::Instant::now() < end {
        let part = read.data().await.unwrap().unwrap();
        read.flow_control().release_capacity(part.len()).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    router.in_flight(1).await;
}

#[tokio::test]
async fn uploads_that_their_cell_does_not_read_leave_room_for_others() {
    let cell = Scripted::raw(|mut stream: TcpStream, _| async move {
        let head = read_head(&mut BufReader::with_capacity(64, &mut stream)).await.unwrap().unwrap();
        if head.second_word() == "/stuck" {
            std::future::pending::<()>().await;
        }
        let _ = stream.write_all(&ok("fast")).await;
    })
    .await;
    let router = wide(&cell);
    let mut client = Client::connect(router.data).await;
    // The connection's window is that of all the streams that it may have.
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..99 {
        let (_answer, mut stream) = client.begin(request(Method::POST, "/stuck", "acme"), false).await;
        let body = body.clone();
        tokio::spawn(async move { send(&mut stream, body, true).await });
    }
    router.in_flight(99).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (answer, mut stream) = client.begin(request(Method::POST, "/", "acme"), false).await;
    send(&mut stream, Bytes::from_static(b"small"), true).await.unwrap();
    assert_eq!(finish(answer).await.unwrap().text(), "fast");
    client.cut();
}
