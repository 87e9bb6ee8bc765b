//! A thousand requests that are none.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::metrics::scrape;
use crate::support::processes::RealFleet;
use crate::support::raw::{self, get};
use crate::support::scripted::Scripted;

/// The same numbers for every run (xorshift64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }

    fn pick<'a>(&mut self, of: &[&'a [u8]]) -> &'a [u8] {
        of[self.below(of.len())]
    }
}

/// Whole requests to spoil.
const SOUND: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\n\r\n",
    b"POST /a HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\ncontent-length: 4\r\n\r\nbody",
    b"PUT /a?b=c HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    b"GET http://x.example/ HTTP/1.1\r\nhost: x\r\nx-tenant-id: acme\r\nconnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\nhost: x\r\nx-tenant-id: acme\r\n\r\n",
];

/// What is put in somewhere.
const SPLINTERS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\0",
    b"\r",
    b" ",
    b"\t",
    b":",
    b"\xff\xfe",
    b"content-length: 18446744073709551616\r\n",
    b"content-length: -1\r\n",
    b"content-length: 3, 4\r\n",
    b"transfer-encoding: chunked, gzip\r\n",
    b"transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    b"host: y\r\n",
    b"HTTP/9.9",
    b"ffffffffffffffff\r\n",
    b"x-tenant-id: {x}\r\n",
    b"via: 1.1 cofferdam-test\r\n",
    b"expect: 100-continue\r\n",
    b"%00",
    b"../../",
    b"cofferdam-refused: cell\r\n",
    b"connection: x-tenant-id, host\r\n",
    b" folded: x\r\n",
    b"PRI * HTTP/2.0\r\n\r\n",
];

fn spoiled(seed: u64) -> Vec<u8> {
    let mut random = Seeded(seed);
    let mut bytes = random.pick(SOUND).to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(5) {
            0 => bytes[at] = random.below(256) as u8,
            1 => drop(bytes.splice(at..at, random.pick(SPLINTERS).to_vec())),
            2 => drop(bytes.drain(at..(at + random.below(8)).min(bytes.len()))),
            3 => bytes.truncate(at + 1),
            _ => bytes = bytes.repeat(2),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Sends the bytes and reads for a moment; half of the clients close their side first.
async fn send(data: std::net::SocketAddr, bytes: &[u8], close_first: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(data).await.unwrap();
    let mut answer = vec![0; 4096];
    let talk = async {
        stream.write_all(bytes).await?;
        if close_first {
            stream.shutdown().await?;
        }
        stream.read(&mut answer).await
    };
    let n = tokio::time::timeout(Duration::from_millis(30), talk).await.unwrap_or(Ok(0)).unwrap_or(0);
    answer.truncate(n);
    answer
}

#[tokio::test]
async fn a_thousand_malformed_requests_neither_panic_nor_keep_anything() {
    // P39
    let cell = Scripted::named("cell").await;
    let fleet = RealFleet::start(0, &[], |_| alone(cell.address, "")).await;
    let mut clients = tokio::task::JoinSet::new();
    for lane in 0..8_u64 {
        let data = fleet.data;
        clients.spawn(async move {
            for n in 0..125 {
                let seed = (lane * 125 + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let answer = send(data, &spoiled(seed), n % 2 == 0).await;
                assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "seed {seed}: {answer:?}");
            }
        });
    }
    clients.join_all().await;
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "cell");
    eventually("nothing in flight", async || {
        let metrics = scrape(fleet.probes).await;
        let in_flight = metrics.sum("cofferdam_limits_in_flight", &[]);
        (in_flight + metrics.sum("cofferdam_router_cell_in_flight", &[]) == 0.0).then_some(())
    })
    .await;
    let log = fleet.router.log();
    assert!(!log.contains("panicked"), "{log}");
    for seen in cell.seen() {
        let tenant = seen.head.field("cofferdam-tenant").unwrap();
        let well_formed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        assert!((1..=64).contains(&tenant.len()) && tenant.bytes().all(well_formed), "{seen:?}");
    }
}
