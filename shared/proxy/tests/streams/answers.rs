//! Answers on streams: their ends, their clocks, and what dropping one does.

use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::upstream::{Http2Limits, UpstreamBodyError, UpstreamLimits};
use h2::Reason;
use http::{HeaderMap, HeaderValue, Method, Response, Version};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::script::{Script, get, limits, ok, send, within};

#[tokio::test]
async fn an_answer_has_its_head_its_data_and_its_trailers_without_framing_ones() {
    let (script, upstream) = Script::new().await;
    let (response, _peer) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let mut body = ok(&mut peer.request().await.1);
        body.send_data("text".into(), false).unwrap();
        let pairs = [("grpc-status", "0"), ("content-length", "9"), ("set-cookie", "a=1")];
        let trailers: HeaderMap = pairs
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        body.send_trailers(trailers).unwrap();
        peer
    });
    let response = response.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
    let whole = response.into_body().collect().await.unwrap();
    let trailers = whole.trailers().unwrap();
    assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &HeaderValue::from_static("0")));
    assert_eq!(whole.to_bytes(), "text");
}

#[tokio::test]
async fn a_head_alone_is_an_answer_that_has_ended() {
    let (script, upstream) = Script::new().await;
    let (response, _peer) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        peer.request().await.1.send_response(Response::new(()), true).unwrap();
        peer
    });
    assert!(response.unwrap().into_body().is_end_stream());
}

#[tokio::test]
async fn head_has_the_length_of_what_it_does_not_have() {
    let (script, upstream) = Script::new().await;
    let (response, _peer) =
        tokio::join!(async { send(upstream.stream(false).await.unwrap(), Method::HEAD).await }, async {
            let mut peer = script.accept().await;
            let head = Response::builder().header("content-length", "7").body(()).unwrap();
            peer.request().await.1.send_response(head, true).unwrap();
            peer
        });
    let response = response.unwrap();
    assert_eq!(response.headers()["content-length"], "7");
    assert!(response.into_body().is_end_stream());
}

#[tokio::test]
async fn dropping_an_exchange_cancels_its_stream_alone() {
    let (script, upstream) = Script::new().await;
    let (lease, mut peer) = tokio::join!(upstream.stream(false), script.accept());
    let waiting = tokio::spawn(send(lease.unwrap(), Method::GET));
    let (_, mut respond) = peer.request().await;
    waiting.abort();
    let reset = within("a reset", std::future::poll_fn(|cx| respond.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
    let (response, mut body) = tokio::join!(get(&upstream), async { ok(&mut peer.request().await.1) });
    drop(response.unwrap());
    let reset = within("a reset", std::future::poll_fn(|cx| body.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
    assert!(upstream.stream(false).await.unwrap().reused());
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_held_back_and_holds_back_no_other() {
    // P16
    let (script, upstream) = Script::new().await;
    let (lease, mut peer) = tokio::join!(upstream.stream(false), script.accept());
    drop(lease.unwrap());
    let mut stuck = Vec::new();
    for _ in 0..40 {
        let (response, mut body) = tokio::join!(get(&upstream), async { ok(&mut peer.request().await.1) });
        body.reserve_capacity(1 << 20);
        let mut n_sent = 0;
        // The window of one stream, in however many parts it is told.
        while n_sent < 64 * 1024 {
            let room =
                within("room", std::future::poll_fn(|cx| body.poll_capacity(cx))).await.unwrap().unwrap();
            n_sent += room;
            body.send_data(vec![b'x'; room].into(), false).unwrap();
        }
        assert_eq!(n_sent, 64 * 1024);
        stuck.push((response.unwrap(), body));
    }
    let (response, ()) =
        tokio::join!(get(&upstream), async { crate::script::answer(peer.request().await.1, "on its way") });
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "on its way");
    // What is taken makes room.
    let (response, mut body) = stuck.pop().unwrap();
    let mut answer = response.into_body();
    let (_, room) = tokio::join!(
        async {
            let mut n_read = 0;
            while n_read < 64 * 1024 {
                n_read += within("data", answer.frame()).await.unwrap().unwrap().into_data().unwrap().len();
            }
        },
        within("room", std::future::poll_fn(|cx| body.poll_capacity(cx)))
    );
    assert!(room.unwrap().unwrap() > 0);
}

#[tokio::test]
async fn a_silent_body_is_an_error_after_its_time() {
    let limits = UpstreamLimits { stream_idle: Duration::from_millis(100), ..limits() };
    let (script, upstream) = Script::with(limits, Http2Limits::default()).await;
    let (response, (_peer, mut body)) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let body = ok(&mut peer.request().await.1);
        (peer, body)
    });
    let mut answer = response.unwrap().into_body();
    // Whatever comes begins the time anew.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        body.send_data("a".into(), false).unwrap();
        within("data", answer.frame()).await.unwrap().unwrap();
    }
    let error = within("an end", answer.frame()).await.unwrap().unwrap_err();
    assert!(matches!(error, UpstreamBodyError::Idle(_)), "{error:?}");
    let reset = within("a reset", std::future::poll_fn(|cx| body.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
}

#[tokio::test]
async fn a_body_with_a_time_of_its_own_ends_by_it_in_good_order() {
    let (script, upstream) = Script::new().await;
    let (response, (_peer, mut body)) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let mut body = ok(&mut peer.request().await.1);
        body.send_data(Bytes::from_static(b"some"), false).unwrap();
        (peer, body)
    });
    let mut answer = response.unwrap().into_body();
    let over: HeaderMap =
        [("grpc-status".parse().unwrap(), HeaderValue::from_static("4"))].into_iter().collect();
    answer.end_by(Instant::now() + Duration::from_millis(100), over.clone());
    let whole = within("an end", answer.collect()).await.unwrap();
    assert_eq!(whole.trailers(), Some(&over));
    assert_eq!(whole.to_bytes(), "some");
    let reset = within("a reset", std::future::poll_fn(|cx| body.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
}

#[tokio::test]
async fn a_body_with_a_time_of_its_own_ends_by_it_though_there_is_always_more() {
    let (script, upstream) = Script::new().await;
    let (response, (_peer, mut body)) = tokio::join!(get(&upstream), async {
        let mut peer = script.accept().await;
        let body = ok(&mut peer.request().await.1);
        (peer, body)
    });
    let flood = tokio::spawn(async move {
        loop {
            body.reserve_capacity(64 * 1024);
            match std::future::poll_fn(|cx| body.poll_capacity(cx)).await {
                Some(Ok(room)) => body.send_data(vec![b'x'; room].into(), false).unwrap(),
                Some(Err(_)) | None => return,
            }
        }
    });
    let mut answer = response.unwrap().into_body();
    let over: HeaderMap =
        [("grpc-status".parse().unwrap(), HeaderValue::from_static("4"))].into_iter().collect();
    answer.end_by(Instant::now() + Duration::from_millis(50), over.clone());
    let read = async {
        loop {
            if let Ok(trailers) = answer.frame().await.unwrap().unwrap().into_trailers() {
                return trailers;
            }
            // Slower than what comes.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert_eq!(within("an end", read).await, over);
    within("a reset", flood).await.unwrap();
}
