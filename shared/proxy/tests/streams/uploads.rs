//! Request bodies on their way: streamed beside the answer, held back, and cut.

use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue};

use crate::relay::Client;
use crate::script::{limits, ok, within};

/// A time that no test reaches.
const NEVER: Duration = Duration::from_secs(3600);

/// Exactly these bytes, in however many parts they come.
async fn hears(stream: &mut RecvStream, expected: &[u8]) {
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        let part = within("data", stream.data()).await.unwrap().unwrap();
        stream.flow_control().release_capacity(part.len()).unwrap();
        heard.extend_from_slice(&part);
    }
    assert_eq!(heard, expected);
}

/// Sends until nothing more is taken for a while; how much was.
async fn send_until_full(stream: &mut SendStream<Bytes>) -> usize {
    let mut n_sent = 0;
    loop {
        stream.reserve_capacity(1 << 20);
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx));
        match tokio::time::timeout(Duration::from_millis(300), room).await {
            Ok(room) => {
                let room = room.unwrap().unwrap();
                n_sent += room;
                stream.send_data(vec![b'x'; room].into(), false).unwrap();
            }
            Err(_) => return n_sent,
        }
    }
}

fn trailers(name: &'static str) -> HeaderMap {
    let pairs = [(name, "1"), ("internal-x", "2")];
    pairs.into_iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

#[tokio::test]
async fn both_ways_stream_at_once_and_end_by_their_trailers() {
    let (mut client, script) = Client::new(limits(), NEVER).await;
    let (answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, mut respond) = peer.request().await;
    assert_eq!((request.uri().path(), request.uri().authority().unwrap().as_str()), ("/a", "cell"));
    let mut heard = request.into_body();
    // The answer begins before the first byte of the request.
    let mut body = ok(&mut respond);
    let mut answer = within("a head", answer).await.unwrap().into_body();
    for text in ["abc", "d", "012345678"] {
        upload.send_data(text.into(), false).unwrap();
        hears(&mut heard, text.as_bytes()).await;
        body.send_data(text.into(), false).unwrap();
        hears(&mut answer, text.as_bytes()).await;
    }
    upload.send_trailers(trailers("x-sum")).unwrap();
    assert!(within("an end", heard.data()).await.is_none());
    let seen = within("trailers", heard.trailers()).await.unwrap().unwrap();
    assert_eq!(seen.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["x-sum"]);
    body.send_trailers(trailers("grpc-status")).unwrap();
    assert!(within("an end", answer.data()).await.is_none());
    let seen = within("trailers", answer.trailers()).await.unwrap().unwrap();
    assert_eq!(seen.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["grpc-status"]);
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_held_back_and_goes_on_once_it_is_read() {
    let (mut client, script) = Client::new(limits(), NEVER).await;
    let (_answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, _respond) = peer.request().await;
    let n_sent = send_until_full(&mut upload).await;
    assert!((1..1 << 20).contains(&n_sent), "{n_sent}");
    let mut heard = request.into_body();
    hears(&mut heard, &vec![b'x'; n_sent]).await;
    upload.send_data("last".into(), true).unwrap();
    hears(&mut heard, b"last").await;
}

#[tokio::test]
async fn an_answer_that_its_client_does_not_take_does_not_hold_back_the_request() {
    let (mut client, script) = Client::new(limits(), NEVER).await;
    let (answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, mut respond) = peer.request().await;
    let mut body = ok(&mut respond);
    let _not_read = within("a head", answer).await.unwrap();
    assert!(send_until_full(&mut body).await >= 64 * 1024);
    let mut heard = request.into_body();
    for _ in 0..20 {
        upload.send_data(vec![b'y'; 16 * 1024].into(), false).unwrap();
        hears(&mut heard, &[b'y'; 16 * 1024]).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_the_stream() {
    let (mut client, script) = Client::new(limits(), NEVER).await;
    let (answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (_request, mut respond) = peer.request().await;
    let mut body = ok(&mut respond);
    within("a head", answer).await.unwrap();
    upload.send_reset(Reason::CANCEL);
    let reset = within("a reset", std::future::poll_fn(|cx| body.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
}

#[tokio::test]
async fn silence_of_the_request_is_nobodys_business_once_the_answer_comes() {
    let (mut client, script) = Client::new(limits(), Duration::from_millis(100)).await;
    let (answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, mut respond) = peer.request().await;
    let mut body = ok(&mut respond);
    let mut answer = within("a head", answer).await.unwrap().into_body();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        body.send_data("a".into(), false).unwrap();
        hears(&mut answer, b"a").await;
    }
    upload.send_data("late".into(), true).unwrap();
    hears(&mut request.into_body(), b"late").await;
}

#[tokio::test]
async fn a_request_that_stands_still_before_its_answer_is_the_clients_fault() {
    let (mut client, script) = Client::new(limits(), Duration::from_millis(100)).await;
    let (answer, _upload) = client.post().await;
    let mut peer = script.accept().await;
    let (_request, mut respond) = peer.request().await;
    let response = within("an answer", answer).await.unwrap();
    assert_eq!(response.status(), 502);
    let reset = within("a reset", std::future::poll_fn(|cx| respond.poll_reset(cx))).await.unwrap();
    assert_eq!(reset, Reason::CANCEL);
}

#[tokio::test]
async fn a_request_that_moves_keeps_a_silent_answer_alive() {
    let limits =
        cofferdam_proxy::upstream::UpstreamLimits { stream_idle: Duration::from_millis(200), ..limits() };
    let (mut client, script) = Client::new(limits, NEVER).await;
    let (answer, mut upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, mut respond) = peer.request().await;
    let mut body = ok(&mut respond);
    let mut answer = within("a head", answer).await.unwrap().into_body();
    let mut heard = request.into_body();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        upload.send_data("a".into(), false).unwrap();
        hears(&mut heard, b"a").await;
    }
    body.send_data("b".into(), true).unwrap();
    hears(&mut answer, b"b").await;
}
