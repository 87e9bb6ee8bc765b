//! The life of connections: reuse, staleness, the cap, idle time, and that cancelling an exchange closes its own.

use std::time::Duration;

use cofferdam_proxy::upstream::{ConnectFault, SendFault, Upstream, UpstreamLimits};
use http::Method;
use http_body_util::BodyExt;

use crate::script::{Peer, Script, data, get, hear, limits, send};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";

/// A script, its client, and the peer of the one connection that is idle now.
async fn idle(limits: UpstreamLimits) -> (Script, Upstream, Peer) {
    let (script, upstream) = Script::new(limits).await;
    let (response, peer) = tokio::join!(get(&upstream), script.answer(ANSWER));
    assert_eq!(data(response.unwrap()).await, "abc");
    (script, upstream, peer)
}

#[tokio::test]
async fn a_connection_serves_again_and_says_so() {
    let (_script, upstream, mut peer) = idle(limits()).await;
    for _ in 0..3 {
        let lease = upstream.lease().await.unwrap();
        assert!(lease.reused());
        let (response, request) = tokio::join!(send(lease, Method::GET), async {
            let request = peer.request().await;
            peer.say(ANSWER).await;
            request
        });
        assert_eq!(request, "GET /a HTTP/1.1\r\nhost: cell\r\n\r\n");
        assert_eq!(data(response.unwrap()).await, "abc");
    }
    assert!(!upstream.connect().await.unwrap().reused());
}

#[tokio::test]
async fn whatever_makes_the_next_answer_doubtful_ends_the_connection() {
    let table: [(&str, &[u8]); 8] = [
        ("close", b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
        ("HTTP/1.0", b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"),
        (
            "a length beside chunked",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("bytes behind a length", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nabc"),
        (
            "bytes behind the last chunk",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\r\n",
        ),
        ("a body behind 204", b"HTTP/1.1 204 No Content\r\n\r\nabc"),
        ("an answer nobody asked for", b"HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        ("a malformed chunk", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n"),
    ];
    for (what, answer) in table {
        let (script, upstream) = Script::new(limits()).await;
        let (response, mut peer) = tokio::join!(get(&upstream), script.answer(answer));
        // The body may well be an error.
        drop(response.unwrap().into_body().collect().await);
        assert_eq!(peer.rest().await, b"", "{what}");
        assert!(!upstream.lease().await.unwrap().reused(), "{what}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_closed_or_spoke_is_not_used() {
    for said in [None, Some(ANSWER)] {
        let (_script, upstream, mut peer) = idle(limits()).await;
        match said {
            Some(bytes) => peer.say(bytes).await,
            None => peer.finish().await,
        }
        hear().await;
        assert!(!upstream.lease().await.unwrap().reused());
        assert_eq!(peer.rest().await, b"");
    }
}

#[tokio::test]
async fn a_connection_reset_before_anything_was_written_is_told_apart() {
    let (script, upstream) = Script::new(limits()).await;
    let (lease, peer) = tokio::join!(upstream.connect(), script.accept());
    peer.reset();
    assert!(matches!(send(lease.unwrap(), Method::GET).await, Err(SendFault::Unsent)));
    // What an earlier exchange wrote does not count.
    let (_script, upstream, peer) = idle(limits()).await;
    let lease = upstream.lease().await.unwrap();
    assert!(lease.reused());
    peer.reset();
    assert!(matches!(send(lease, Method::GET).await, Err(SendFault::Unsent)));
}

#[tokio::test]
async fn a_connection_that_closed_between_its_lease_and_the_first_write_is_told_apart() {
    let (_script, upstream, mut peer) = idle(limits()).await;
    let lease = upstream.lease().await.unwrap();
    assert!(lease.reused());
    peer.finish().await;
    hear().await;
    assert!(matches!(send(lease, Method::POST).await, Err(SendFault::Unsent)));
    assert_eq!(peer.rest().await, b"", "nothing was written");
}

#[tokio::test]
async fn dropping_the_wait_for_an_answer_closes_the_connection() {
    let (script, upstream) = Script::new(limits()).await;
    let mut waiting = Box::pin(get(&upstream));
    let mut peer = tokio::select! {
        _ = &mut waiting => panic!("nothing was answered"),
        peer = async {
            let mut peer = script.accept().await;
            peer.request().await;
            peer
        } => peer,
    };
    drop(waiting);
    assert_eq!(peer.rest().await, b"");
}

#[tokio::test]
async fn dropping_a_body_before_its_end_closes_the_connection() {
    let (script, upstream) = Script::new(limits()).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc";
    let (response, mut peer) = tokio::join!(get(&upstream), script.answer(answer));
    let mut body = response.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(peer.rest().await, b"");
    assert!(!upstream.lease().await.unwrap().reused());
}

#[tokio::test]
async fn a_pool_has_no_more_connections_than_it_may() {
    let (script, upstream) = Script::new(UpstreamLimits { max_connections: 2, ..limits() }).await;
    let (one, two) = (upstream.lease().await.unwrap(), upstream.lease().await.unwrap());
    assert!(matches!(upstream.lease().await, Err(ConnectFault::Full(2))));
    drop(one);
    let third = upstream.lease().await.unwrap();
    assert!(matches!(upstream.connect().await, Err(ConnectFault::Full(2))));
    drop((script, two, third));
}

#[tokio::test]
async fn an_idle_connection_makes_way_for_a_new_one_at_the_cap() {
    let (_script, upstream, mut peer) = idle(UpstreamLimits { max_connections: 1, ..limits() }).await;
    assert!(!upstream.connect().await.unwrap().reused());
    assert_eq!(peer.rest().await, b"");
}

#[tokio::test]
async fn a_connection_idle_for_too_long_is_closed_without_being_asked_for() {
    let idle = Duration::from_secs(9);
    let (script, upstream) = Script::new(UpstreamLimits { idle, ..limits() }).await;
    // Once the last is closed nobody watches any more, until there is another.
    for _ in 0..2 {
        let (response, mut peer) = tokio::join!(get(&upstream), script.answer(ANSWER));
        data(response.unwrap()).await;
        tokio::time::pause();
        let start = tokio::time::Instant::now();
        assert_eq!(peer.rest().await, b"");
        assert!(start.elapsed() <= idle + Duration::from_millis(1), "{:?}", start.elapsed());
        tokio::time::resume();
    }
    assert!(!upstream.lease().await.unwrap().reused());
}

#[tokio::test]
async fn idle_connections_are_closed_when_their_pool_goes() {
    let (_script, upstream, mut peer) = idle(limits()).await;
    drop(upstream);
    assert_eq!(peer.rest().await, b"");
}

#[tokio::test]
async fn a_refused_connect_is_told_apart() {
    let (script, upstream) = Script::new(limits()).await;
    drop(script);
    assert!(matches!(upstream.lease().await, Err(ConnectFault::Io(_))));
}
