//! A scripted upstream, and the client's side of one exchange without a request body.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::replay::ReplayBody;
use cofferdam_proxy::upstream::{Head, HeadLimits, Lease, SendFault, Upstream, UpstreamBody, UpstreamLimits};
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Response};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// A listener whose connections a test plays by hand.
pub(crate) struct Script {
    listener: TcpListener,
}

/// The scripted side of one connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

pub(crate) fn limits() -> UpstreamLimits {
    // Loopback connects at once; a loaded machine may still need a while.
    let (connect, head) = (Duration::from_secs(20), HeadLimits::OUTSIDE);
    UpstreamLimits { connect, head, ..UpstreamLimits::default() }
}

impl Script {
    /// A listener, and a client of it.
    pub(crate) async fn new(limits: UpstreamLimits) -> (Self, Upstream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Upstream::new(&listener.local_addr().unwrap().to_string(), limits);
        (Self { listener }, upstream)
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream }
    }

    /// One connection on which one request is answered with these bytes.
    pub(crate) async fn answer(&self, bytes: &[u8]) -> Peer {
        let mut peer = self.accept().await;
        peer.request().await;
        peer.say(bytes).await;
        peer
    }
}

impl Peer {
    /// The next request's head.
    pub(crate) async fn request(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Says `bytes` in pieces, each read by the other side before the next is said. The other side may hang up.
    pub(crate) async fn say_pieces<'a>(
        &mut self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        for piece in pieces {
            self.stream.write_all(piece).await?;
            hear().await;
        }
        Ok(())
    }

    /// Says no more, but goes on listening.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// What comes until the other side has closed.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest).await {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => rest,
        }
    }
}

/// Lets the runtime hear everything that has happened to its sockets so far: what happens to a socket of this one's own
/// is heard after it, or together with it.
pub(crate) async fn hear() {
    let (mut one, mut other) = tokio::net::UnixStream::pair().unwrap();
    one.write_all(b"x").await.unwrap();
    other.read_u8().await.unwrap();
    tokio::task::yield_now().await;
}

/// Sends a request without a body.
pub(crate) async fn send(lease: Lease, method: Method) -> Result<Response<UpstreamBody>, SendFault> {
    let fields = HeaderMap::from_iter([(HOST, HeaderValue::from_static("cell"))]);
    let target = PathAndQuery::from_static("/a");
    lease
        .send(
            Head {
                method: &method,
                target: &target,
                fields: &fields,
                withheld: |_| false,
                lines: &FieldLines::default(),
                upgrade: false,
            },
            &ReplayBody::empty(),
            Instant::now() + Duration::from_secs(3600),
        )
        .await
}

pub(crate) async fn get(upstream: &Upstream) -> Result<Response<UpstreamBody>, SendFault> {
    send(upstream.lease().await.unwrap(), Method::GET).await
}

/// One GET on a new connection that is answered with `bytes` and the end.
pub(crate) async fn exchange(bytes: &[u8]) -> Result<Response<UpstreamBody>, SendFault> {
    let (script, upstream) = Script::new(limits()).await;
    let peer = async {
        let mut peer = script.answer(bytes).await;
        peer.finish().await;
        peer
    };
    tokio::join!(get(&upstream), peer).0
}

/// A body's data.
pub(crate) async fn data(response: Response<UpstreamBody>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}
