//! When connections end that nobody uses, on a clock that is paused: it moves once nothing else does.

use std::time::Duration;

use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::replay::ReplayBody;
use cofferdam_proxy::upstream::{ConnectFault, Head, Http2Limits, StreamLease, UpstreamLimits};
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderName, Method};
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::script::{Script, get, limits, ok};

const IDLE: Duration = Duration::from_secs(40);

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_when_its_time_is_up_and_not_one_look_later() {
    let limits = UpstreamLimits { idle: IDLE, ..limits() };
    // Looks are a ping's time apart, and the last stream ends between two of them.
    let http2 = Http2Limits { ping: Duration::from_secs(30), ..Http2Limits::default() };
    for used in [5, 35] {
        let (script, upstream) = Script::with(limits, http2).await;
        let (response, (peer, mut body)) = tokio::join!(get(&upstream), async {
            let mut peer = script.accept().await;
            let (_, mut respond) = peer.request().await;
            let body = ok(&mut respond);
            (peer, body)
        });
        sleep(Duration::from_secs(used)).await;
        body.send_data("a".into(), true).unwrap();
        response.unwrap().into_body().collect().await.unwrap();
        let unused = Instant::now();
        while !peer.is_over() {
            sleep(Duration::from_millis(100)).await;
        }
        let kept = unused.elapsed();
        assert!(kept >= IDLE && kept < IDLE + Duration::from_secs(2), "{kept:?} after {used} s of use");
    }
}

/// A request that is more than a socket takes, for many like it.
async fn send_much(lease: StreamLease) {
    let much = HeaderValue::try_from("x".repeat(128 * 1024)).unwrap();
    let fields = [(HOST, HeaderValue::from_static("cell")), (HeaderName::from_static("x-much"), much)];
    let head = Head {
        method: &Method::GET,
        target: &PathAndQuery::from_static("/a"),
        fields: &HeaderMap::from_iter(fields),
        withheld: |_| false,
        lines: &FieldLines::default(),
        upgrade: false,
    };
    drop(lease.send(head, &ReplayBody::empty()).await);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_any_more_holds_no_connection_behind_its_farewell() {
    let limits = UpstreamLimits { idle: Duration::from_secs(5), max_connections: 1, ..limits() };
    let (script, upstream) = Script::with(limits, Http2Limits::default()).await;
    let mut asking = JoinSet::new();
    let (lease, _deaf) = tokio::join!(upstream.stream(false), script.raw());
    asking.spawn(send_much(lease.unwrap()));
    for _ in 1..100 {
        asking.spawn(send_much(upstream.stream(false).await.unwrap()));
    }
    // The clock moves only when no more can be written.
    sleep(Duration::from_millis(1)).await;
    asking.shutdown().await;
    sleep(limits.idle + Duration::from_millis(500)).await;
    let held = upstream.stream(false).await;
    assert!(matches!(held, Err(ConnectFault::Full(1))), "the farewell is still under way: {held:?}");
    sleep(Duration::from_secs(1)).await;
    let (lease, _peer) = tokio::join!(upstream.stream(false), script.accept());
    assert!(!lease.unwrap().reused());
}
