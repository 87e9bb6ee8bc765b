//! Tunnels between ends in memory, on a clock that is paused.

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

const IDLE: Duration = Duration::from_secs(300);

/// How much each end in memory takes before it is read.
const ROOM: usize = 1024;

/// A tunnel that runs: the client's end, the upstream's, and what will be told of it.
struct Running {
    client: DuplexStream,
    upstream: DuplexStream,
    ended: JoinHandle<(TunnelEnd, u64, u64)>,
}

fn run(early: &'static [u8], from_upstream: &'static [u8]) -> Running {
    let ((client, near), (upstream, far)) = (duplex(ROOM), duplex(ROOM));
    let flows = (Flow::new(Bytes::from_static(early)), Flow::new(Bytes::from_static(from_upstream)));
    let ended = tokio::spawn(async move {
        let (mut n_up, mut n_down) = (0, 0);
        let end = copy(near, far, flows, IDLE, |way, bytes| match way {
            Way::Up => n_up += bytes,
            Way::Down => n_down += bytes,
        })
        .await;
        (end, n_up, n_down)
    });
    Running { client, upstream, ended }
}

async fn read(from: &mut DuplexStream, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    from.read_exact(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test(start_paused = true)]
async fn early_bytes_come_first_and_both_ways_are_counted() {
    let mut tunnel = run(b"early ", b"hello ");
    tunnel.client.write_all(b"ping").await.unwrap();
    assert_eq!(read(&mut tunnel.upstream, 10).await, b"early ping");
    tunnel.upstream.write_all(b"pong!").await.unwrap();
    assert_eq!(read(&mut tunnel.client, 11).await, b"hello pong!");
    tunnel.client.shutdown().await.unwrap();
    tunnel.upstream.shutdown().await.unwrap();
    assert_eq!(tunnel.ended.await.unwrap(), (TunnelEnd::Closed, 10, 11));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_side_is_passed_on_and_the_other_way_goes_on() {
    let mut tunnel = run(b"", b"");
    tunnel.client.write_all(b"last words").await.unwrap();
    tunnel.client.shutdown().await.unwrap();
    let mut words = Vec::new();
    tunnel.upstream.read_to_end(&mut words).await.unwrap();
    assert_eq!(words, b"last words");
    for _ in 0..3 {
        tunnel.upstream.write_all(&[b'x'; ROOM / 2]).await.unwrap();
        read(&mut tunnel.client, ROOM / 2).await;
        assert!(!tunnel.ended.is_finished());
    }
    drop(tunnel.upstream);
    let mut rest = Vec::new();
    tunnel.client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(tunnel.ended.await.unwrap().0, TunnelEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn silence_both_ways_ends_it_and_a_byte_either_way_does_not() {
    let mut tunnel = run(b"", b"");
    let begun = Instant::now();
    for n in 0..4 {
        tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
        assert!(!tunnel.ended.is_finished());
        let (from, to) = match n % 2 {
            0 => (&mut tunnel.client, &mut tunnel.upstream),
            _ => (&mut tunnel.upstream, &mut tunnel.client),
        };
        from.write_all(b"x").await.unwrap();
        assert_eq!(read(to, 1).await, b"x");
    }
    let spoken = begun.elapsed();
    assert_eq!(tunnel.ended.await.unwrap(), (TunnelEnd::Idle, 2, 2));
    let silent = begun.elapsed() - spoken;
    assert!(silent >= IDLE && silent < IDLE + Duration::from_secs(1), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_side_that_takes_nothing_holds_the_other_back_and_is_not_waited_for_without_an_end() {
    let mut tunnel = run(b"", b"");
    let mut pushed = 0;
    while tokio::time::timeout(Duration::from_secs(1), tunnel.client.write_all(&[b'x'; 512])).await.is_ok() {
        pushed += 512;
        assert!(pushed < 1 << 20, "{pushed} bytes were taken for a side that reads nothing");
    }
    assert_eq!(tunnel.ended.await.unwrap().0, TunnelEnd::Idle);
}

#[tokio::test(start_paused = true)]
async fn a_side_that_is_lost_takes_the_other_with_it() {
    // A pipe whose reader is gone is broken.
    let mut tunnel = run(b"", b"");
    drop(tunnel.upstream);
    tunnel.client.write_all(b"x").await.unwrap();
    assert_eq!(tunnel.ended.await.unwrap().0, TunnelEnd::UpstreamLost);
    let mut rest = Vec::new();
    tunnel.client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    let mut tunnel = run(b"", b"");
    drop(tunnel.client);
    tunnel.upstream.write_all(b"x").await.unwrap();
    assert_eq!(tunnel.ended.await.unwrap().0, TunnelEnd::ClientLost);
}

#[test]
fn a_tunnel_that_is_never_run_or_dropped_while_it_runs_says_so_once() {
    let told = Arc::<Mutex<Vec<_>>>::default();
    let metrics = TunnelMetrics::register(&mut Registry::default(), "x");
    for begun in [false, true] {
        let noted = Arc::clone(&told);
        let holder: Option<Holder> = Some(Box::new(move |end| noted.lock().push(end)));
        if begun {
            metrics.begun();
        }
        drop(Tunnel { upstream: None, holder, metrics: metrics.clone(), begun });
        assert_eq!(metrics.n_open(), 0);
    }
    assert_eq!(*told.lock(), [TunnelEnd::NotBegun, TunnelEnd::Cut]);
}

#[tokio::test(start_paused = true)]
async fn once_one_side_has_ended_the_other_has_a_few_seconds_of_silence() {
    for is_client_first in [true, false] {
        let Running { mut client, mut upstream, ended } = run(b"", b"");
        let (first, other) =
            if is_client_first { (&mut client, &mut upstream) } else { (&mut upstream, &mut client) };
        let began = Instant::now();
        first.shutdown().await.unwrap();
        // What still flows the other way keeps it up.
        for _ in 0..10 {
            sleep(AFTER_END / 2).await;
            other.write_all(b"more").await.unwrap();
            assert_eq!(read(first, 4).await, b"more");
        }
        let silent = Instant::now();
        assert_eq!(ended.await.unwrap().0, TunnelEnd::HalfClosed);
        assert!(silent - began >= 5 * AFTER_END);
        assert!(silent.elapsed() >= AFTER_END && silent.elapsed() < 2 * AFTER_END, "{:?}", silent.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn silence_before_one_side_ends_takes_nothing_of_the_others_time() {
    let mut tunnel = run(b"", b"");
    sleep(IDLE / 2).await;
    let ended = Instant::now();
    tunnel.upstream.shutdown().await.unwrap();
    assert_eq!(tunnel.ended.await.unwrap().0, TunnelEnd::HalfClosed);
    assert!(ended.elapsed() >= AFTER_END && ended.elapsed() < 2 * AFTER_END, "{:?}", ended.elapsed());
}
