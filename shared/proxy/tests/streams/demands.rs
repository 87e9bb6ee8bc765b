//! What RFC 9113 demands of a client against servers that do what servers may not, or need not.

use std::time::Duration;

use cofferdam_proxy::upstream::SendFault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::relay::Client;
use crate::script::{Script, answer, frame, get, limits, read_head, within};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const WHOLE: u8 = 5;

/// `:status: 200` by its index.
const OK: &[u8] = b"\x88";

/// Reads on until a frame of this kind with these flags has come; its payload.
async fn next(stream: &mut TcpStream, kind: u8, flags: u8) -> Vec<u8> {
    let read = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut payload).await.unwrap();
            if (head[3], head[4]) == (kind, flags) {
                return payload;
            }
        }
    };
    within("a frame", read).await
}

#[tokio::test]
async fn a_promise_that_nobody_takes_ends_the_connection() {
    let (script, upstream) = Script::new().await;
    let (fault, mut socket) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        read_head(&mut socket).await;
        // Stream 2, and `GET http://cell/` for it.
        let promised = b"\x00\x00\x00\x02\x82\x86\x84\x01\x04cell";
        socket.write_all(&frame(PUSH_PROMISE, END_HEADERS, 1, promised)).await.unwrap();
        socket
    });
    assert!(matches!(fault, Err(SendFault::Lost(_))), "{fault:?}");
    // The last four bytes are the error: PROTOCOL_ERROR.
    assert_eq!(next(&mut socket, GOAWAY, 0).await[4..8], [0, 0, 0, 1]);
}

#[tokio::test]
async fn interim_answers_are_not_the_answer() {
    let (script, upstream) = Script::new().await;
    let (response, _socket) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        read_head(&mut socket).await;
        // `:status` by its index with a value of its own, twice.
        for interim in [b"\x08\x03103", b"\x08\x03100"] {
            socket.write_all(&frame(HEADERS, END_HEADERS, 1, interim)).await.unwrap();
        }
        socket.write_all(&frame(HEADERS, WHOLE, 1, OK)).await.unwrap();
        socket
    });
    assert_eq!(response.unwrap().status(), 200);
}

#[tokio::test]
async fn settings_and_pings_are_acknowledged() {
    let (script, upstream) = Script::new().await;
    let (lease, mut socket) = tokio::join!(upstream.stream(false), script.raw());
    let _lease = lease.unwrap();
    assert!(next(&mut socket, SETTINGS, ACK).await.is_empty());
    socket.write_all(&frame(PING, 0, 0, b"12345678")).await.unwrap();
    assert_eq!(next(&mut socket, PING, ACK).await, b"12345678");
}

#[tokio::test]
async fn fields_of_a_connection_and_capitals_make_an_answer_malformed() {
    for (field, ends_its_connection) in [
        (&b"\x00\x0aconnection\x05close"[..], false),
        (b"\x00\x11transfer-encoding\x07chunked", false),
        // What is no name at all is a fault of the whole connection for h2, which 9113 5.4.2 allows.
        (b"\x00\x03X-a\x01b", true),
    ] {
        let (script, upstream) = Script::new().await;
        let (fault, _socket) = tokio::join!(get(&upstream), async {
            let mut socket = script.raw().await;
            read_head(&mut socket).await;
            socket.write_all(&frame(HEADERS, WHOLE, 1, &[OK, field].concat())).await.unwrap();
            socket
        });
        let fault = fault.unwrap_err();
        let name = field.escape_ascii();
        assert_eq!(matches!(fault, SendFault::Malformed(_)), !ends_its_connection, "{name}: {fault:?}");
        assert_eq!(matches!(fault, SendFault::Lost(_)), ends_its_connection, "{name}: {fault:?}");
    }
}

#[tokio::test]
async fn a_whole_answer_to_a_request_that_is_given_up_without_an_error_is_kept() {
    let (mut client, script) = Client::new(limits(), Duration::from_secs(60)).await;
    let (response, _upload) = client.post().await;
    let mut peer = script.accept().await;
    let (request, respond) = peer.request().await;
    answer(respond, "early");
    // Who has answered and reads no more resets the stream with NO_ERROR.
    drop(request);
    let response = within("a head", response).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let text = within("a body", body.data()).await.unwrap().unwrap();
    assert_eq!(text, "early");
}
