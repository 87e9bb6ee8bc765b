//! A request that is sent round, again and again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use cofferdam_fleet::Fleet;
use cofferdam_model::{Alphabet, TenantId};
use cofferdam_proxy::census::{Census, DEFAULT_PER_ADDRESS};
use cofferdam_proxy::drain::Drain;
use cofferdam_proxy::handover::Ownership;
use cofferdam_proxy::serve;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cells::Directory;
use crate::door::Doors;
use crate::shared_limits::RouterLimits;
use crate::snapshot::Snapshot;
use crate::top::Top;

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(600);

/// A data path before one cell, behind these doors.
fn data_path(cell: SocketAddr, doors: &Doors) -> DataPath {
    let text = format!(
        "fleet: f\ncells: [{{ id: a, url: 'http://{cell}' }}]\nplacement: {{ shard_size: 1 }}\n\
         routes: [{{ match: {{ path: / }}, timeout: 10m }}]\n"
    );
    let fleet = Fleet::parse(&text, Path::new(".")).unwrap().fleet;
    let limits = RouterLimits::start(&fleet, None).unwrap().limits;
    let directory = Directory::default();
    let snapshot = Snapshot::build(fleet, &directory).unwrap();
    directory.install(&snapshot.cells, snapshot.fleet.health);
    let overrides =
        Overrides::new(Arc::new(ArcSwap::from_pointee(snapshot)), None, None, &Ownership::default());
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let census = Census::register(&mut registry, "test", DEFAULT_PER_ADDRESS);
    let (door, top) = (doors.worker(), Top::default().worker());
    DataPath::new(Arc::new(overrides), door, limits, metrics, census, top, &Settings::default())
}

/// A cell that answers the first request that it gets.
async fn cell() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nserved").await.unwrap();
    });
    address
}

#[tokio::test]
async fn a_request_may_be_sent_round_ten_thousand_times() {
    let (doors, acme) = (Doors::default(), TenantId::parse(b"acme", &Alphabet::default()).unwrap());
    let path = data_path(cell().await, &doors);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let drain = Drain::default();
    tokio::spawn(serve::serve(listener, serve::ServeLimits::default(), Arc::new(path), drain.watch()));
    doors.hold(&acme, LONG);
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-tenant-id: acme\r\n\r\n").await.unwrap();
    for _ in 0..10_000 {
        while doors.n_waiting() == 0 {
            tokio::task::yield_now().await;
        }
        // Nobody else runs in between: it finds the door held anew.
        doors.open(&acme);
        doors.hold(&acme, LONG);
    }
    doors.open(&acme);
    let mut answer = Vec::new();
    while !answer.ends_with(b"served") {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}
