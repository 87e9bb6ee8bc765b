//! Transfers that are larger than anything on the way may hold, through router and agent: whoever reads slowly holds back
//! whoever sends, and who goes away meanwhile is heard of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cofferdam_proxy::replay::BodyLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::message::read_head;
use crate::support::raw::{self, get, with_fields};
use crate::support::scripted::{Scripted, ok};
use crate::support::{eventually, within};

/// How much is read at a time by whoever reads slowly.
const STEP: usize = 1 << 20;

/// How many steps each wait until the sender is held back.
const HELD_STEPS: u64 = 5;

/// The buffers of the three hops in this process: far less than a megabyte.
const OURS: u64 = 1 << 20;

/// How large a transfer is, and how much of it may be on its way.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    size: u64,
    on_the_way: u64,
}

impl Transfer {
    /// Each of the three hops has a socket that sends and one that receives, and this machine's kernel lets each grow up
    /// to a bound of its own (tcp(7)). A transfer is larger than all that, so that its end has to wait.
    fn of_this_machine() -> Self {
        let kernel = largest_buffer("tcp_wmem") + largest_buffer("tcp_rmem");
        let on_the_way = 3 * kernel + OURS;
        let step = STEP as u64;
        Self { size: on_the_way.next_multiple_of(step) + 2 * HELD_STEPS * step, on_the_way }
    }

    fn body(self) -> BodyLimits {
        BodyLimits { max_bytes: self.size, idle: Duration::from_secs(30) }
    }
}

/// How many bytes the kernel lets a socket's buffer grow to: the last of the least, the first and the largest size.
fn largest_buffer(name: &str) -> u64 {
    let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    sizes.split_whitespace().last().unwrap().parse().unwrap()
}

/// Bytes that say where in a body they belong.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new() -> Self {
        Self((0..STEP + 251).map(|place| (place % 251) as u8).collect())
    }

    /// The `n` bytes from a place on; at most [`STEP`].
    fn part(&self, from: u64, n: usize) -> &[u8] {
        &self.0[(from % 251) as usize..][..n]
    }
}

/// Sends a body as fast as it is taken, and counts.
async fn send(stream: &mut (impl AsyncWriteExt + Unpin), size: u64, sent: &AtomicU64) {
    let pattern = Pattern::new();
    loop {
        let from = sent.load(Ordering::SeqCst);
        if from == size {
            return;
        }
        let block = pattern.part(from, 64 << 10);
        if stream.write_all(block).await.is_err() {
            return;
        }
        sent.fetch_add(block.len() as u64, Ordering::SeqCst);
    }
}

/// Reads a body step by step, and holds it against what was sent by then: the first steps each wait until the sender is
/// held back.
async fn read_slowly(stream: &mut (impl AsyncReadExt + Unpin), transfer: Transfer, sent: &AtomicU64) {
    let (pattern, mut step) = (Pattern::new(), vec![0; STEP]);
    for from in (0..transfer.size).step_by(STEP) {
        let is_held = from < HELD_STEPS * STEP as u64;
        let so_far = if is_held { held_back(sent).await } else { sent.load(Ordering::SeqCst) };
        let ahead = so_far.saturating_sub(from);
        assert!(ahead <= transfer.on_the_way, "{ahead} bytes are on the way, of {transfer:?}");
        within("a part of the body", stream.read_exact(&mut step)).await.unwrap();
        assert!(step == pattern.part(from, STEP), "the bytes from {from} on");
    }
}

/// How much was sent once nothing more is taken.
async fn held_back(sent: &AtomicU64) -> u64 {
    let mut last = 0;
    eventually("the sender to be held back", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = sent.load(Ordering::SeqCst);
        (now > 0 && now == std::mem::replace(&mut last, now)).then_some(now)
    })
    .await
}

#[tokio::test]
async fn a_large_download_is_held_back_by_a_client_that_reads_slowly_and_comes_whole() {
    // P16
    let transfer = Transfer::of_this_machine();
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let home = Scripted::raw(move |mut stream: TcpStream, _| {
        let sent = Arc::clone(&counter);
        async move {
            read_head(&mut BufReader::new(&mut stream)).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", transfer.size);
            stream.write_all(head.as_bytes()).await.unwrap();
            send(&mut stream, transfer.size, &sent).await;
        }
    })
    .await;
    let fleet = TestFleet::sized(PINS, [home, Scripted::named("other").await], transfer.body()).await;
    let mut client = BufReader::new(TcpStream::connect(fleet.router.data).await.unwrap());
    client.write_all(get("/", "acme").as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut client).await.unwrap().unwrap().second_word(), "200");
    read_slowly(&mut client, transfer, &sent).await;
    fleet.idle().await;
}

#[tokio::test]
async fn a_large_upload_is_held_back_by_a_backend_that_reads_slowly_and_comes_whole() {
    // P16
    let transfer = Transfer::of_this_machine();
    let (hand_on, mut handed) = mpsc::unbounded_channel();
    let home = Scripted::raw(move |stream: TcpStream, _| {
        let hand_on = hand_on.clone();
        async move { hand_on.send(stream).unwrap() }
    })
    .await;
    let slow = format!("{PINS}routes: [{{ match: {{ path: / }}, class: default, timeout: 120s }}]\n");
    let fleet = TestFleet::sized(&slow, [home, Scripted::named("other").await], transfer.body()).await;
    let mut client = BufReader::new(TcpStream::connect(fleet.router.data).await.unwrap());
    let head = with_fields("POST", "/", "acme", &format!("content-length: {}\r\n", transfer.size));
    client.write_all(head.as_bytes()).await.unwrap();
    let sent = AtomicU64::new(0);
    tokio::join!(send(&mut client, transfer.size, &sent), async {
        // What only connects is the agent's look at its backend.
        let mut backend = loop {
            let mut stream = BufReader::new(within("a connection", handed.recv()).await.unwrap());
            if read_head(&mut stream).await.unwrap().is_some() {
                break stream;
            }
        };
        read_slowly(&mut backend, transfer, &sent).await;
        backend.write_all(&ok("whole")).await.unwrap();
    });
    assert_eq!(within("an answer", read_head(&mut client)).await.unwrap().unwrap().second_word(), "200");
    fleet.idle().await;
}

#[tokio::test]
async fn a_client_that_dies_while_its_upload_is_held_back_gives_everything_back() {
    let transfer = Transfer::of_this_machine();
    let lost = Arc::new(Semaphore::new(0));
    let counter = Arc::clone(&lost);
    let home = Scripted::raw(move |mut stream: TcpStream, _| {
        let lost = Arc::clone(&counter);
        async move {
            read_head(&mut BufReader::with_capacity(64, &mut stream)).await.unwrap();
            // Nothing more is read: only a reset gets through.
            stream.ready(Interest::ERROR).await.unwrap();
            lost.add_permits(1);
        }
    })
    .await;
    let slow = format!("{PINS}routes: [{{ match: {{ path: / }}, class: default, timeout: 600s }}]\n");
    let fleet = TestFleet::sized(&slow, [home, Scripted::named("other").await], transfer.body()).await;
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(with_fields("POST", "/", "acme", &format!("content-length: {}\r\n", transfer.size))).await;
    let block = vec![b'x'; 1 << 20];
    while tokio::time::timeout(Duration::from_millis(500), client.try_send(&block)).await.is_ok() {}
    client.reset();
    within("the backend's connection to be reset", lost.acquire()).await.unwrap().forget();
    fleet.idle().await;
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"client_gone\""]), 1.0);
}
