//! The life of connections: shared, opened once, drained, pinged, closed when idle.

use std::time::Duration;

use cofferdam_proxy::upstream::{ConnectFault, Http2Limits, SendFault, Upstream, UpstreamLimits};
use futures_util::future::join_all;
use http::Method;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::script::{Script, answer, get, limits, send, within};

#[tokio::test]
async fn many_who_ask_at_once_open_one_connection_and_share_it() {
    // P23
    let (script, upstream) = Script::new().await;
    let asking = join_all((0..50).map(|_| get(&upstream)));
    let answering = async {
        let mut peer = script.accept().await;
        let mut held = Vec::new();
        for _ in 0..50 {
            held.push(peer.request().await);
        }
        held.into_iter().for_each(|(_, respond)| answer(respond, "a"));
        peer
    };
    let (answers, _peer) = tokio::join!(asking, answering);
    for response in answers {
        assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "a");
    }
    assert!(!script.has_another().await);
}

#[tokio::test]
async fn one_who_gives_up_while_a_connection_is_opened_fails_nobody_else() {
    let (script, upstream) = Script::new().await;
    let first = {
        let upstream = upstream.clone();
        tokio::spawn(async move { upstream.stream(false).await.map(drop) })
    };
    let socket = script.socket().await;
    let second = {
        let upstream = upstream.clone();
        tokio::spawn(async move { upstream.stream(false).await.unwrap() })
    };
    tokio::task::yield_now().await;
    first.abort();
    let mut socket = socket;
    socket.write_all(&crate::script::frame(4, 0, 0, &[])).await.unwrap();
    within("a place", second).await.unwrap();
    assert!(!script.has_another().await);
}

#[tokio::test]
async fn a_peer_that_takes_one_stream_at_a_time_gets_a_connection_for_each() {
    let (script, upstream) = Script::new().await;
    let one = {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(1);
        builder
    };
    let (first, mut peer) = tokio::join!(upstream.stream(false), script.accept_with(&one));
    let (second, _other) = tokio::join!(upstream.stream(false), script.accept_with(&one));
    drop(second.unwrap());
    let (response, _) = tokio::join!(send(first.unwrap(), Method::GET), async {
        answer(peer.request().await.1, "a");
    });
    response.unwrap().into_body().collect().await.unwrap();
    // Whoever comes later finds room on the oldest.
    let lease = upstream.stream(false).await.unwrap();
    assert!(lease.reused());
    let (_, (request, _)) = tokio::join!(send(lease, Method::GET), async {
        let (request, respond) = peer.request().await;
        answer(respond, "b");
        (request, ())
    });
    assert_eq!(request.uri(), "http://cell/a");
    assert!(!script.has_another().await);
}

#[tokio::test]
async fn no_more_connections_are_opened_than_are_allowed() {
    // P23
    let (script, upstream) = Script::with(
        UpstreamLimits { max_connections: 1, ..limits() },
        Http2Limits { max_streams: 1, ..Http2Limits::default() },
    )
    .await;
    let (first, _peer) = tokio::join!(upstream.stream(false), script.accept());
    assert!(matches!(upstream.stream(false).await, Err(ConnectFault::Full(1))));
    drop(first.unwrap());
    // A new one is asked for, but what there is has to do.
    assert!(upstream.stream(true).await.unwrap().reused());
}

#[tokio::test]
async fn who_asks_for_a_fresh_connection_gets_one() {
    let (script, upstream) = Script::new().await;
    let (first, _peer) = tokio::join!(upstream.stream(false), script.accept());
    drop(first.unwrap());
    let (fresh, _other) = tokio::join!(upstream.stream(true), script.accept());
    assert!(!fresh.unwrap().reused());
}

#[tokio::test]
async fn a_peer_that_leaves_finishes_what_it_has_and_is_asked_no_more() {
    let (script, upstream) = Script::new().await;
    let (begun, (peer, respond)) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let (_, mut respond) = peer.request().await;
        let body = crate::script::ok(&mut respond);
        peer.leave();
        (peer, body)
    });
    let mut respond = respond;
    let (later, _other) = tokio::join!(get(&upstream), async {
        let mut other = script.accept().await;
        answer(other.request().await.1, "new");
        other
    });
    assert_eq!(later.unwrap().into_body().collect().await.unwrap().to_bytes(), "new");
    respond.send_data("whole".into(), true).unwrap();
    assert_eq!(begun.unwrap().into_body().collect().await.unwrap().to_bytes(), "whole");
    peer.ended().await;
}

#[tokio::test]
async fn a_peer_that_does_not_speak_http2_is_no_connection() {
    let (script, upstream) = Script::new().await;
    let refuse = async {
        let mut socket = script.socket().await;
        let _ = socket.read(&mut [0; 100]).await;
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
        socket
    };
    let (lease, _socket) = tokio::join!(upstream.stream(false), refuse);
    assert!(matches!(lease, Err(ConnectFault::NotSpoken(_))), "{lease:?}");
    let hang_up = async { drop(script.socket().await) };
    let (lease, ()) = tokio::join!(upstream.stream(false), hang_up);
    assert!(matches!(lease, Err(ConnectFault::Unopened(_))), "{lease:?}");
}

#[tokio::test]
async fn a_peer_that_says_nothing_costs_the_time_to_connect_for_all_who_ask() {
    let limits = UpstreamLimits { connect: Duration::from_millis(100), ..limits() };
    let (script, upstream) = Script::with(limits, Http2Limits::default()).await;
    let (leases, _silent) = tokio::join!(join_all((0..10).map(|_| upstream.stream(false))), script.socket());
    for lease in leases {
        assert!(matches!(lease, Err(ConnectFault::Unopened(_))), "{lease:?}");
    }
    assert!(!script.has_another().await);
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_loses_its_streams() {
    let http2 = Http2Limits { ping: Duration::from_millis(50), ..Http2Limits::default() };
    let (script, upstream) = Script::with(limits(), http2).await;
    let (lost, _socket) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        crate::script::read_head(&mut socket).await;
        socket
    });
    assert!(matches!(lost, Err(SendFault::Lost(_))), "{lost:?}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_in_use_is_not() {
    let limits = UpstreamLimits { idle: Duration::from_millis(50), ..limits() };
    let (script, upstream) = Script::with(limits, Http2Limits::default()).await;
    let (response, (peer, mut body)) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let (_, mut respond) = peer.request().await;
        let body = crate::script::ok(&mut respond);
        (peer, body)
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    body.send_data("a".into(), true).unwrap();
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "a");
    peer.ended().await;
}

/// Plays connections one after another, each by the same bytes, until nobody opens one any more; how many there were.
async fn n_opened(script: &Script, upstream: &Upstream, bytes: &[u8]) -> usize {
    let asking = async {
        let lease = within("an end of the opening", upstream.stream(false)).await;
        assert!(matches!(lease, Err(ConnectFault::Io(_))), "{lease:?}");
    };
    let mut sockets = Vec::new();
    let playing = async {
        loop {
            let mut socket = script.socket().await;
            socket.write_all(bytes).await.unwrap();
            sockets.push(socket);
        }
    };
    tokio::select! {
        () = asking => {}
        () = playing => {}
    }
    sockets.len()
}

#[tokio::test]
async fn a_peer_that_takes_no_stream_costs_a_call_one_connection() {
    let (script, upstream) = Script::new().await;
    let none = crate::script::frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]);
    assert_eq!(n_opened(&script, &upstream, &none).await, 1);
    assert!(!script.has_another().await);
}

#[tokio::test]
async fn a_peer_that_leaves_at_once_costs_a_call_one_connection() {
    let (script, upstream) = Script::new().await;
    let leaves = [crate::script::frame(4, 0, 0, &[]), crate::script::frame(7, 0, 0, &[0; 8])].concat();
    assert_eq!(n_opened(&script, &upstream, &leaves).await, 1);
    assert!(!script.has_another().await);
}
