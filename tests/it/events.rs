//! Server-sent events: each is with the client before the next one is made, through both hops, and whoever leaves is
//! heard of.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_router::Settings;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::http2::client as http2;
use crate::support::agents::TestFleet;
use crate::support::files::{PINS, alone};
use crate::support::message::{Framing, read_head};
use crate::support::processes::RealFleet;
use crate::support::raw::{self, chunk, get};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;
use crate::support::{eventually, within};

const STREAM: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// What the client and the backend tell each other beside the connection.
#[derive(Debug)]
struct Aside {
    /// The client has the last event.
    acknowledged: Semaphore,
    /// The backend's connection has ended.
    closed: Semaphore,
}

fn event(n: usize) -> Vec<u8> {
    format!("id: {n}\ndata: event {n}\n\n").into_bytes()
}

/// A backend that sends the next event only once the client has the last one.
async fn backend() -> (Scripted, Arc<Aside>) {
    let aside = Arc::new(Aside { acknowledged: Semaphore::new(0), closed: Semaphore::new(0) });
    let shared = Arc::clone(&aside);
    let server = Scripted::raw(move |mut stream: TcpStream, _| {
        let aside = Arc::clone(&shared);
        async move {
            let Ok(Some(_)) = read_head(&mut BufReader::new(&mut stream)).await else { return };
            stream.write_all(STREAM).await.unwrap();
            for n in 0.. {
                if stream.write_all(&chunk(&event(n))).await.is_err() {
                    break;
                }
                let mut more = [0];
                tokio::select! {
                    acknowledged = aside.acknowledged.acquire() => acknowledged.unwrap().forget(),
                    _ = stream.read(&mut more) => break,
                }
            }
            aside.closed.add_permits(1);
        }
    })
    .await;
    (server, aside)
}

async fn fleet() -> (TestFleet, Arc<Aside>) {
    let ((home, aside), (other, _)) = (backend().await, backend().await);
    (TestFleet::before(PINS, [home, other]).await, aside)
}

/// A stream of events, with its head read.
async fn open(router: std::net::SocketAddr) -> (raw::Client, Framing) {
    let mut client = raw::Client::connect(router).await;
    client.send(get("/events", "acme")).await;
    let head = client.head().await;
    assert_eq!((head.second_word(), head.field("content-type")), ("200", Some("text/event-stream")));
    let framing = head.response_framing(false);
    (client, framing)
}

#[tokio::test]
async fn each_event_is_with_the_client_before_the_next_is_made() {
    let (fleet, aside) = fleet().await;
    let (mut client, mut framing) = open(fleet.router.data).await;
    for n in 0..50 {
        assert_eq!(client.part(&mut framing).await.unwrap(), event(n));
        aside.acknowledged.add_permits(1);
    }
    drop(client);
    within("the backend's connection to be closed", aside.closed.acquire()).await.unwrap().forget();
    fleet.idle().await;
}

#[tokio::test]
async fn each_event_is_with_a_client_of_http2_before_the_next_is_made() {
    let (fleet, aside) = fleet().await;
    let mut client = http2::Client::connect(fleet.router.data).await;
    let (answer, _) = client.begin(http2::get("/events", "acme"), true).await;
    let (head, mut stream) = within("a head", answer).await.unwrap().into_parts();
    assert_eq!(head.headers["content-type"], "text/event-stream");
    for n in 0..50 {
        let part = within("an event", stream.data()).await.unwrap().unwrap();
        stream.flow_control().release_capacity(part.len()).unwrap();
        assert_eq!(part, event(n));
        aside.acknowledged.add_permits(1);
    }
    // A stream that is dropped is reset; its connection goes on.
    drop(stream);
    within("the backend's connection to be closed", aside.closed.acquire()).await.unwrap().forget();
    fleet.idle().await;
    let (_again, _) = client.begin(http2::get("/events", "acme"), true).await;
    fleet.router.in_flight(1).await;
}

#[tokio::test]
async fn events_go_on_through_a_drain_until_they_are_cut() {
    let (cell, aside) = backend().await;
    let settings = Settings { drain_deadline: Duration::from_secs(1), ..settings() };
    let router = TestRouter::with(&alone(cell.address, ""), settings, 1);
    let (mut client, mut framing) = open(router.data).await;
    let data = router.data;
    let leaving = tokio::spawn(router.router.shutdown());
    let refused = async || TcpStream::connect(data).await.is_err().then_some(());
    eventually("new connections to be refused", refused).await;
    for n in 0..3 {
        assert_eq!(client.part(&mut framing).await.unwrap(), event(n));
        aside.acknowledged.add_permits(1);
    }
    within("the router to leave", leaving).await.unwrap();
    assert!(!client.rest().await.ends_with(b"0\r\n\r\n"), "a stream that is cut has no last chunk");
    within("the backend's connection to be closed", aside.closed.acquire()).await.unwrap().forget();
}

#[tokio::test]
async fn how_many_streams_a_drain_cut_is_logged() {
    let (cell, aside) = backend().await;
    let flags = ["--drain-deadline", "200ms", "--workers", "1"];
    let mut fleet = RealFleet::start(0, &flags, |_| alone(cell.address, "")).await;
    let (mut client, _) = open(fleet.data).await;
    fleet.router.signal(Signal::TERM);
    assert!(fleet.router.end().await.success());
    client.rest().await;
    within("the backend's connection to be closed", aside.closed.acquire()).await.unwrap().forget();
    let log = fleet.router.log();
    assert!(log.contains("in_flight=1") && log.contains("tunnels=0"), "{log}");
}
