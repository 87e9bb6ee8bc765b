//! Answers: where they end, what is passed over, and what is refused.

use std::time::Duration;

use cofferdam_proxy::upstream::{AnswerError, SendFault, UpstreamBodyError, UpstreamLimits};
use http::Method;
use http_body::Body;
use http_body_util::BodyExt;

use crate::script::{Script, data, exchange, get, hear, limits, send};

#[tokio::test]
async fn a_body_ends_where_its_head_says() {
    let table: [(&[u8], &[u8]); 7] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcgarbage", b"abc"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", b"abc"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n", b""),
    ];
    for (bytes, body) in table {
        assert_eq!(data(exchange(bytes).await.unwrap()).await, body, "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn an_answer_to_head_keeps_its_length_and_has_no_body() {
    let (script, upstream) = Script::new(limits()).await;
    let lease = upstream.connect().await.unwrap();
    let peer = script.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n");
    let (response, _peer) = tokio::join!(send(lease, Method::HEAD), peer);
    let response = response.unwrap();
    assert_eq!(response.headers()["content-length"], "30");
    assert!(response.body().is_end_stream());
    assert!(upstream.lease().await.unwrap().reused());
}

#[tokio::test]
async fn trailers_come_behind_the_data() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = b"3\r\nabc\r\n0\r\ngrpc-status: 0\r\ncontent-length: 9\r\n\r\n";
    let response = exchange(&[head.as_slice(), chunks].concat()).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().unwrap();
    assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &"0".parse().unwrap()));
    assert_eq!(body.to_bytes(), "abc");
}

#[tokio::test]
async fn an_answer_byte_by_byte_is_the_same_answer() {
    let bytes =
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
        3;x=y\r\nabc\r\n0\r\na: b\r\n\r\n";
    let (script, upstream) = Script::new(limits()).await;
    let (response, _peer) =
        tokio::join!(async { get(&upstream).await.unwrap().into_body().collect().await.unwrap() }, async {
            let mut peer = script.accept().await;
            peer.request().await;
            peer.say_pieces(bytes.chunks(1)).await.unwrap();
            peer
        });
    assert_eq!(response.trailers().unwrap()["a"], "b");
    assert_eq!(response.to_bytes(), "abc");
    assert!(upstream.lease().await.unwrap().reused());
}

#[tokio::test]
async fn what_breaks_off_is_an_error_and_never_a_shorter_body() {
    let table: [(&[u8], bool); 6] = [
        (b"content-length: 3\r\n\r\nab", false),
        (b"transfer-encoding: chunked\r\n\r\n", false),
        (b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", false),
        (b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", false),
        (b"transfer-encoding: chunked\r\n\r\n3\r\nabcX", true),
        (b"transfer-encoding: chunked\r\n\r\nx\r\n", true),
    ];
    for (bytes, malformed) in table {
        let response = exchange(&[b"HTTP/1.1 200 OK\r\n".as_slice(), bytes].concat()).await.unwrap();
        let mut body = response.into_body();
        let error = loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("{} ended", bytes.escape_ascii()),
            }
        };
        assert_eq!(matches!(error, UpstreamBodyError::Malformed), malformed, "{}", bytes.escape_ascii());
        assert!(body.is_end_stream() && body.frame().await.is_none(), "an error is told once");
    }
}

#[tokio::test]
async fn a_reset_breaks_a_body_that_ends_with_its_connection() {
    let (script, upstream) = Script::new(limits()).await;
    let (response, peer) = tokio::join!(get(&upstream), script.answer(b"HTTP/1.1 200 OK\r\n\r\nabc"));
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
    peer.reset();
    assert!(matches!(body.frame().await, Some(Err(UpstreamBodyError::Broken(_)))));
}

#[tokio::test]
async fn interim_answers_are_passed_over_and_switching_protocols_is_refused() {
    let hints = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
    let response = exchange(format!("{hints}{answer}").as_bytes()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().len()), (200, 1));
    assert_eq!(data(response).await, "abc");
    let response = exchange(format!("{}{answer}", hints.repeat(8)).as_bytes()).await;
    assert!(response.is_ok());
    for (bytes, status) in [
        (format!("{}{answer}", hints.repeat(9)), 100),
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n".to_owned(), 101),
    ] {
        let fault = exchange(bytes.as_bytes()).await.unwrap_err();
        let interim = AnswerError::Interim(status);
        assert!(matches!(fault, SendFault::Malformed(error) if error == interim), "{bytes}");
    }
}

#[tokio::test]
async fn no_answer_is_told_apart_by_what_came_of_it() {
    assert!(matches!(exchange(b"").await, Err(SendFault::Lost(_))));
    for part in ["H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\na: b\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let fault = exchange(part.as_bytes()).await.unwrap_err();
        assert!(matches!(fault, SendFault::Malformed(AnswerError::Incomplete)), "{part:?}: {fault:?}");
    }
    for garbage in ["\r\n", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 999 Odd\r\n\r\n"] {
        let fault = exchange(garbage.as_bytes()).await.unwrap_err();
        assert!(matches!(fault, SendFault::Malformed(_)), "{garbage:?}: {fault:?}");
    }
}

#[tokio::test]
async fn silence_within_a_body_is_an_error_that_closes_the_connection() {
    let idle = Duration::from_secs(7);
    let (script, upstream) = Script::new(UpstreamLimits { stream_idle: idle, ..limits() }).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc";
    let (response, mut peer) = tokio::join!(get(&upstream), script.answer(answer));
    let mut body = response.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    assert!(matches!(body.frame().await, Some(Err(UpstreamBodyError::Idle(bound))) if bound == idle));
    assert!(start.elapsed() >= idle);
    assert_eq!(peer.rest().await, b"");
}

#[tokio::test]
async fn an_upstream_stops_being_read_while_nobody_takes_its_body() {
    let (script, upstream) = Script::new(limits()).await;
    let (response, peer) = tokio::join!(get(&upstream), script.answer(b"HTTP/1.1 200 OK\r\n\r\n"));
    let mut said = 0;
    // Two full stops in a row, between which everything was heard: the kernel's buffers are full.
    let mut stops = 0;
    while stops < 2 {
        match peer.stream.try_write(&[b'x'; 64 * 1024]) {
            Ok(n) => (said, stops) = (said + n, 0),
            Err(_) => {
                stops += 1;
                hear().await;
            }
        }
        assert!(said < 256 << 20, "the body is read although nobody takes it");
    }
    drop(peer);
    let body = data(response.unwrap()).await;
    assert_eq!(body.len(), said);
}

#[tokio::test]
async fn a_large_body_comes_byte_for_byte() {
    let whole: Vec<u8> = (0..5u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let chunks: Vec<u8> = whole
        .chunks(50_000)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .chain(*b"0\r\n\r\n")
        .collect();
    let head = "HTTP/1.1 200 OK\r\n";
    let answers = [
        [format!("{head}content-length: {}\r\n\r\n", whole.len()).as_bytes(), &whole].concat(),
        [format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes(), &chunks].concat(),
        [format!("{head}\r\n").as_bytes(), &whole].concat(),
    ];
    for answer in answers {
        let (script, upstream) = Script::new(limits()).await;
        let client = async { data(get(&upstream).await.unwrap()).await };
        let peer = async { drop(script.answer(&answer).await) };
        assert!(tokio::join!(client, peer).0 == whole);
    }
}
