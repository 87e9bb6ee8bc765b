//! Connections of HTTP/2 whose bytes are ours: what comes before the first stream, what is malformed, and silence.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::{LIMITS, Server, rest, start, start_with};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The kinds of frames that are looked for.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A head whose fields are literals that no table keeps.
fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

async fn hello(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    client
}

/// The payload of the next frame of a kind; a connection that ends before that has no such frame.
async fn next(client: &mut TcpStream, kind: u8) -> Option<Vec<u8>> {
    let read = async {
        loop {
            let mut head = [0; 9];
            client.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            client.read_exact(&mut payload).await.ok()?;
            // Acknowledgements are not looked for.
            if head[3] == kind && !(kind == SETTINGS && head[4] == 1) {
                return Some(payload);
            }
        }
    };
    timeout(Duration::from_secs(10), read).await.expect("a frame or an end")
}

#[tokio::test]
async fn a_preface_in_pieces_is_one_and_the_settings_say_the_bounds() {
    let server = start();
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.set_nodelay(true).unwrap();
    for byte in PREFACE {
        client.write_all(&[*byte]).await.unwrap();
        sleep(Duration::from_millis(2)).await;
    }
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let settings = next(&mut client, SETTINGS).await.unwrap();
    let said: Vec<_> = settings
        .chunks(6)
        .map(|pair| (pair[1], u32::from_be_bytes(pair[2..].try_into().unwrap())))
        .filter(|(id, _)| [3, 4, 6].contains(id))
        .collect();
    // The last is what is read at all; what is answered has less.
    assert_eq!(said, [(3, 100), (4, 64 << 10), (6, 64 << 10)]);
    let more = next(&mut client, WINDOW_UPDATE).await.unwrap();
    assert_eq!(u32::from_be_bytes(more.try_into().unwrap()), 100 * (64 << 10) - 65_535);
}

#[tokio::test]
async fn what_begins_like_a_preface_and_is_none_is_refused_as_http1() {
    let server = start();
    for (bytes, status) in [(&b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"[..], "400"), (b"PRI * HT", "408")] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let answer = rest(&mut client).await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
    // A method that begins with the same letters is none of its business.
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(b"P").await.unwrap();
    sleep(Duration::from_millis(20)).await;
    client.write_all(b"OST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test]
async fn silence_is_idle_time_before_the_first_byte_and_between_streams() {
    let idle = Duration::from_millis(300);
    let server = start_with(crate::ServeLimits { idle, stall: Duration::from_secs(60), ..LIMITS });
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    let mut client = hello(&server).await;
    assert!(next(&mut client, GOAWAY).await.is_some());
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_loses_its_connection_and_what_its_streams_held() {
    let server = start();
    let mut client = hello(&server).await;
    let request = head(&[(":method", "GET"), (":scheme", "http"), (":path", "/never"), (":authority", "a")]);
    client.write_all(&frame(HEADERS, 5, 1, &request)).await.unwrap();
    server.holds(1).await;
    assert!(next(&mut client, PING).await.is_some());
    server.holds(0).await;
    while next(&mut client, PING).await.is_some() {}
}

#[tokio::test]
async fn fields_of_a_connection_are_malformed_and_reset_their_stream_alone() {
    let server = start();
    let mut client = hello(&server).await;
    let pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    let fields = [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "1"),
        ("proxy-connection", "x"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
    ];
    for (n, field) in (0..).zip(fields) {
        let request = head(&[&pseudo[..], &[field]].concat());
        client.write_all(&frame(HEADERS, 5, 2 * n + 1, &request)).await.unwrap();
        let reason = next(&mut client, RST_STREAM).await.unwrap_or_else(|| panic!("no reset for {field:?}"));
        assert_eq!(reason, [0, 0, 0, 1], "{field:?}");
    }
    client.write_all(&frame(HEADERS, 5, 99, &head(&pseudo))).await.unwrap();
    assert!(next(&mut client, HEADERS).await.is_some());
}

async fn status(server: &Server, request: Request<()>) -> StatusCode {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut requests, connection) = h2::client::Builder::new().handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    // The server's settings come first, so that its bounds are known.
    requests = requests.ready().await.unwrap();
    requests.send_request(request, true).unwrap().0.await.unwrap().status()
}

#[tokio::test]
async fn a_head_with_too_many_bytes_or_fields_is_431() {
    let server = start();
    let request = |n: usize, value: String| {
        let mut request = Request::get("http://a/");
        for n in 0..n {
            request = request.header(format!("x-{n}"), &value);
        }
        request.body(()).unwrap()
    };
    for (n, value, expected) in [(100, 1, 503), (101, 1, 431), (2, 7_000, 503), (2, 9_000, 431)] {
        assert_eq!(status(&server, request(n, "x".repeat(value))).await, expected, "{n} of {value}");
    }
}

#[tokio::test]
async fn resets_without_an_end_end_the_connection() {
    let server = start();
    let mut client = hello(&server).await;
    let request = head(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")]);
    let mut storm = Vec::new();
    for id in (1..20_000_u32).step_by(2) {
        for mut frame in [frame(HEADERS, 5, 0, &request), frame(RST_STREAM, 0, 0, &[0, 0, 0, 8])] {
            frame[5..9].copy_from_slice(&id.to_be_bytes());
            storm.extend(frame);
        }
    }
    let (mut reader, mut writer) = client.split();
    let mut answers = Vec::new();
    let (_, read) = tokio::join!(
        writer.write_all(&storm),
        timeout(Duration::from_secs(10), reader.read_to_end(&mut answers))
    );
    let _ = read.expect("the connection ends");
    let calm = [0, 0, 0, u8::try_from(u32::from(Reason::ENHANCE_YOUR_CALM)).unwrap()];
    assert!(answers.windows(4).any(|bytes| bytes == calm), "it says why");
    server.holds(0).await;
}

#[tokio::test]
async fn more_than_a_streams_window_is_an_error_of_its_flow() {
    let server = start_with(crate::ServeLimits { stall: Duration::from_secs(60), ..LIMITS });
    let mut client = hello(&server).await;
    let request =
        head(&[(":method", "POST"), (":scheme", "http"), (":path", "/unread"), (":authority", "a")]);
    // The windows count once they are acknowledged.
    next(&mut client, SETTINGS).await.unwrap();
    client.write_all(&[frame(SETTINGS, 1, 0, &[]), frame(HEADERS, 4, 1, &request)].concat()).await.unwrap();
    // Just what fits is no error.
    for _ in 0..4 {
        client.write_all(&frame(DATA, 0, 1, &[b'x'; 16 << 10])).await.unwrap();
    }
    client.write_all(&frame(PING, 0, 0, b"12345678")).await.unwrap();
    assert_eq!(next(&mut client, PING).await.unwrap(), b"12345678");
    client.write_all(&frame(DATA, 0, 1, b"x")).await.unwrap();
    assert_eq!(next(&mut client, RST_STREAM).await.unwrap(), [0, 0, 0, 3]);
}

#[tokio::test]
async fn pings_are_read_no_faster_than_their_answers_are_taken() {
    let server = start_with(crate::ServeLimits { stall: Duration::from_secs(60), ..LIMITS });
    let mut client = hello(&server).await;
    let pings = frame(PING, 0, 0, b"12345678").repeat(4096);
    let mut n_sent = 0;
    // The answers are not read: once the sockets are full, nothing more is taken, and so nothing more is kept.
    while let Ok(Ok(written)) = timeout(Duration::from_secs(1), client.write(&pings)).await {
        n_sent += written;
        assert!(n_sent < 256 << 20, "{n_sent} bytes of pings were taken");
    }
}
