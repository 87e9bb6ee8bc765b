//! What a new connection speaks. HTTP/2 with prior knowledge opens with bytes that begin no request of HTTP/1.1 (RFC 9113
//! section 3.4), so one look at what has come tells them apart, and takes nothing away.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest pause before another look. With all those before it, a preface may take twice as long to come.
const LONGEST_PAUSE: Duration = Duration::from_millis(512);

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Waits for the first bytes. Where they are a part of the preface, it looks again after pauses that double: the kernel
/// tells of the first bytes only, and a client that sends the rest late must not make many looks. What is no whole
/// preface by then is for HTTP/1.1's parser to refuse.
pub(crate) async fn protocol(stream: &TcpStream) -> io::Result<Protocol> {
    let mut bytes = [0; PREFACE.len()];
    let mut pause = Duration::from_millis(1);
    loop {
        let n = stream.peek(&mut bytes).await?;
        if bytes[..n] == PREFACE {
            return Ok(Protocol::Http2);
        }
        if n == 0 || !PREFACE.starts_with(&bytes[..n]) || pause > LONGEST_PAUSE {
            return Ok(Protocol::Http1);
        }
        sleep(pause).await;
        pause *= 2;
    }
}
