//! Request bodies on their way: framed, streamed beside the answer, held back, and cut.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::relay::Client;
use crate::script::{Peer, hear, limits};

const CHUNKED: &[u8] = b"POST /a HTTP/1.1\r\nhost: cell\r\ntransfer-encoding: chunked\r\n\r\n";

/// Exactly as many bytes as `expected` has.
async fn hears(peer: &mut Peer, expected: &[u8]) {
    let mut heard = vec![0; expected.len()];
    peer.stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// Writes until nothing more is taken; how much was.
async fn write_until_full(stream: &TcpStream) -> usize {
    // Two full stops in a row, between which everything was heard: every buffer on the way is full.
    let (mut n_written, mut stops) = (0, 0);
    while stops < 2 {
        match stream.try_write(&[b'x'; 64 * 1024]) {
            Ok(n) => (n_written, stops) = (n_written + n, 0),
            Err(_) => {
                stops += 1;
                // As often as it takes to pass the bytes on through the relay.
                for _ in 0..50 {
                    hear().await;
                }
            }
        }
        assert!(n_written < 256 << 20, "the body is taken although nobody reads it");
    }
    n_written
}

#[tokio::test]
async fn a_head_and_a_small_body_are_one_write() {
    let (mut client, script) = Client::new().await;
    client.say(b"POST /a HTTP/1.1\r\nhost: cell\r\ncontent-length: 3\r\n\r\nabc").await;
    let mut peer = script.accept().await;
    let mut heard = vec![0; 1000];
    let n = peer.stream.read(&mut heard).await.unwrap();
    assert_eq!(
        heard[..n].escape_ascii().to_string(),
        "POST /a HTTP/1.1\\r\\nhost: cell\\r\\ncontent-length: 3\\r\\n\\r\\nabc"
    );
}

#[tokio::test]
async fn an_answer_streams_while_its_request_is_still_sent() {
    let (mut client, script) = Client::new().await;
    client.say(CHUNKED).await;
    let mut peer = script.accept().await;
    peer.request().await;
    peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.until("\r\n\r\n").await;
    for chunk in ["3\r\nabc\r\n", "1\r\nd\r\n", "9\r\n012345678\r\n", "0\r\nx-sum: a\r\n\r\n"] {
        client.say(chunk.as_bytes()).await;
        hears(&mut peer, chunk.as_bytes()).await;
        if !chunk.starts_with('0') {
            peer.say(chunk.as_bytes()).await;
            assert_eq!(client.until(chunk).await, chunk);
        }
    }
    peer.say(b"0\r\n\r\n").await;
    assert_eq!(client.until("0\r\n\r\n").await, "0\r\n\r\n");
    // Both ways have ended in good order: the same connection serves again.
    client.say(b"GET /b HTTP/1.1\r\nhost: cell\r\n\r\n").await;
    assert!(peer.request().await.starts_with("GET /b "));
}

#[tokio::test]
async fn an_answer_before_the_body_was_sent_is_relayed_at_once_and_ends_the_connection() {
    let (mut client, script) = Client::new().await;
    client.say(b"POST /a HTTP/1.1\r\nhost: cell\r\ncontent-length: 1000\r\n\r\nabc").await;
    let mut peer = script.accept().await;
    peer.request().await;
    peer.say(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
    let answer = client.until("big").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    hears(&mut peer, b"abc").await;
    // Half a body lies on that connection: another request must not follow it.
    client.another().await.say(b"GET /b HTTP/1.1\r\nhost: cell\r\n\r\n").await;
    tokio::select! {
        mut fresh = script.accept() => assert!(fresh.request().await.starts_with("GET /b ")),
        rest = async { peer.stream.read_u8().await } => assert!(rest.is_err(), "the connection was used again"),
    }
}

#[tokio::test]
async fn an_answer_is_read_although_the_upload_is_stuck() {
    let (mut client, script) = Client::new().await;
    client.say(b"POST /a HTTP/1.1\r\nhost: cell\r\ncontent-length: 1000000000\r\n\r\n").await;
    let mut peer = script.accept().await;
    peer.request().await;
    assert!(write_until_full(&client.stream).await > 0);
    peer.say(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
    let answer = client.until("big").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_reset_that_the_upload_meets_first_breaks_the_answer() {
    let (mut client, script) = Client::new().await;
    client.say(b"POST /a HTTP/1.1\r\nhost: cell\r\ncontent-length: 1000000000\r\n\r\n").await;
    let mut peer = script.accept().await;
    peer.request().await;
    peer.say(b"HTTP/1.1 200 OK\r\n\r\nabc").await;
    client.until("3\r\nabc\r\n").await;
    assert!(write_until_full(&client.stream).await > 0);
    peer.reset();
    let mut rest = Vec::new();
    // The relay hangs up on a client that is still sending: an end, or a reset.
    drop(client.stream.read_to_end(&mut rest).await);
    assert_eq!(rest, b"", "the last chunk says that the body is whole");
}

#[tokio::test]
async fn a_client_that_goes_away_amid_its_body_takes_the_upstream_connection_along() {
    let (mut client, script) = Client::new().await;
    client.say(CHUNKED).await;
    client.say(b"3\r\nabc\r\n").await;
    let mut peer = script.accept().await;
    peer.request().await;
    hears(&mut peer, b"3\r\nabc\r\n").await;
    drop(client);
    assert_eq!(peer.rest().await, b"", "a last chunk would say that the body is whole");
}

#[tokio::test]
async fn neither_an_upload_nor_an_answer_that_goes_on_is_idle() {
    let (mut client, script) = Client::new().await;
    client.say(CHUNKED).await;
    let mut peer = script.accept().await;
    peer.request().await;
    peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.until("\r\n\r\n").await;
    tokio::time::pause();
    // While there is something to do, a paused clock goes on only when it is told to.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let step = limits().stream_idle * 2 / 3;
    for _ in 0..3 {
        tokio::time::advance(step).await;
        client.say(b"3\r\nabc\r\n").await;
        hears(&mut peer, b"3\r\nabc\r\n").await;
        tokio::time::advance(step).await;
        peer.say(b"3\r\ndef\r\n").await;
        assert_eq!(client.until("3\r\ndef\r\n").await, "3\r\ndef\r\n");
    }
    busy.abort();
}

#[tokio::test]
async fn an_answer_of_http_1_0_is_relayed_in_this_hops_own_version() {
    let (mut client, script) = Client::new().await;
    client.say(b"GET /a HTTP/1.1\r\nhost: cell\r\n\r\n").await;
    drop(script.answer(b"HTTP/1.0 200 OK\r\n\r\nabc").await);
    let answer = client.until("0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn a_large_body_goes_both_ways_byte_for_byte() {
    let whole: Vec<u8> = (0..5u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let head = format!("POST /a HTTP/1.1\r\nhost: cell\r\ncontent-length: {}\r\n\r\n", whole.len());
    let (client, script) = Client::new().await;
    let (mut from_relay, mut to_relay) = client.stream.into_split();
    let upload = async {
        to_relay.write_all(head.as_bytes()).await.unwrap();
        to_relay.write_all(&whole).await.unwrap();
    };
    let echo = async {
        let mut peer = script.accept().await;
        peer.request().await;
        peer.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", whole.len()).as_bytes()).await;
        let (mut reader, mut writer) = peer.stream.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    };
    let download = async {
        let mut answer = vec![0; whole.len()];
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(from_relay.read_u8().await.unwrap());
        }
        from_relay.read_exact(&mut answer).await.unwrap();
        answer
    };
    let both = async { tokio::join!(upload, download).1 };
    let answer = tokio::select! {
        answer = both => answer,
        () = echo => panic!("the connection stands until the answer's end"),
    };
    assert!(answer == whole);
}

#[tokio::test]
async fn a_large_body_of_unknown_length_is_sent_byte_for_byte() {
    let whole: Vec<u8> = (0..3u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut client, script) = Client::new().await;
    let upload = async {
        client.say(CHUNKED).await;
        for chunk in whole.chunks(70_000) {
            let size = format!("{:x}\r\n", chunk.len());
            client.say(&[size.as_bytes(), chunk, b"\r\n"].concat()).await;
        }
        client.say(b"0\r\n\r\n").await;
        client.until("\r\n\r\n").await;
    };
    let peer = async {
        let mut peer = script.accept().await;
        peer.request().await;
        let body = chunked_body(&mut peer).await;
        peer.say(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        body
    };
    assert!(tokio::join!(upload, peer).1 == whole);
}

/// A chunked body's data.
async fn chunked_body(peer: &mut Peer) -> Vec<u8> {
    let mut body = Vec::new();
    let mut stream = tokio::io::BufReader::new(&mut peer.stream);
    loop {
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut stream, &mut line).await.unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..]).await.unwrap();
        assert_eq!(stream.read_u16().await.unwrap(), u16::from_be_bytes(*b"\r\n"));
        if size == 0 {
            return body;
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_is_relayed_with_its_length_and_the_connection_serves_again() {
    let (mut client, script) = Client::new().await;
    client.say(b"HEAD /a HTTP/1.1\r\nhost: cell\r\n\r\n").await;
    let mut peer = script.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n").await;
    assert!(client.until("\r\n\r\n").await.contains("content-length: 30\r\n"));
    client.say(b"GET /b HTTP/1.1\r\nhost: cell\r\n\r\n").await;
    assert!(peer.request().await.starts_with("GET /b "));
}
