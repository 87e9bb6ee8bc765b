//! A client that sends exactly the bytes it is given.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use super::message::{Framing, Head, read_body, read_head, read_part};
use super::within;

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer. Where its body broke off, `whole` is false and the body has what came.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) whole: bool,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = within("connect", TcpStream::connect(to)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// The same, from an address of this machine's.
    pub(crate) async fn from(address: [u8; 4], to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((address, 0))).unwrap();
        let stream = within("connect", socket.connect(to)).await.unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("send", self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Sends as far as the other side takes it.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        within("send", self.stream.write_all(bytes.as_ref())).await
    }

    /// The next head. Panics where the connection ends instead.
    pub(crate) async fn head(&mut self) -> Head {
        within("a head", read_head(&mut self.stream)).await.unwrap().expect("no answer: the connection ended")
    }

    /// Some of a body.
    pub(crate) async fn part(&mut self, framing: &mut Framing) -> io::Result<Vec<u8>> {
        within("a part", read_part(&mut self.stream, framing)).await
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.answer_to(false).await
    }

    /// The next answer, to a HEAD request where `bodiless`.
    pub(crate) async fn answer_to(&mut self, bodiless: bool) -> Answer {
        let head = self.head().await;
        let mut framing = head.response_framing(bodiless);
        let mut body = Vec::new();
        let whole = loop {
            match self.part(&mut framing).await {
                Ok(part) if part.is_empty() => break true,
                Ok(part) => body.extend_from_slice(&part),
                Err(_) => break false,
            }
        };
        Answer { head, body, whole }
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// The next `n` bytes.
    pub(crate) async fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        within("bytes", self.stream.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Says that nothing more is sent.
    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Goes away with a reset, as a client does that dies with something unread.
    pub(crate) fn reset(self) {
        self.stream.get_ref().set_zero_linger().unwrap();
    }

    /// Whatever comes until the connection ends; a reset counts as an end.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = within("the end of the connection", self.stream.read_to_end(&mut rest)).await;
        rest
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.second_word().parse().unwrap()
    }

    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// A field that has to be there, as a number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).unwrap_or_else(|| panic!("{name} is missing in {self:?}")).parse().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last part of a problem's type.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status());
        problem["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }
}

/// One request on a connection of its own.
pub(crate) async fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    Client::connect(to).await.ask(request).await
}

/// A GET for a tenant.
pub(crate) fn get(path: &str, tenant: &str) -> String {
    with_fields("GET", path, tenant, "")
}

/// A request for a tenant without a body; `fields` are lines, each with its end.
pub(crate) fn with_fields(method: &str, path: &str, tenant: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: test.example\r\nx-tenant-id: {tenant}\r\n{fields}\r\n")
}

/// A POST for a tenant, with a declared length.
pub(crate) fn post(path: &str, tenant: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}\r\n", body.len());
    let mut request = with_fields("POST", path, tenant, &length).into_bytes();
    request.extend_from_slice(body);
    request
}

/// A chunk of a chunked body; an empty one ends it.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// A body, read from where a request's head ended.
pub(crate) async fn body_of(stream: &mut BufReader<TcpStream>, head: &Head) -> io::Result<Vec<u8>> {
    read_body(stream, head.request_framing()).await
}
