//! Servers of HTTP/2 that a test plays by hand, and the client's side of an exchange without a request body.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::replay::ReplayBody;
use cofferdam_proxy::upstream::{
    Address, Head, Http2Limits, SendFault, StreamLease, Upstream, UpstreamBody, UpstreamLimits,
};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A listener whose connections a test plays by hand.
pub(crate) struct Script {
    listener: TcpListener,
}

/// The scripted side of a connection; its frames come and go by themselves.
pub(crate) struct Peer {
    requests: mpsc::UnboundedReceiver<Asked>,
    leave: mpsc::UnboundedSender<()>,
    task: JoinHandle<()>,
}

/// A request, and the way to answer it.
pub(crate) type Asked = (Request<RecvStream>, SendResponse<Bytes>);

pub(crate) fn limits() -> UpstreamLimits {
    // Loopback connects at once; a loaded machine may still need a while.
    UpstreamLimits { connect: Duration::from_secs(20), ..UpstreamLimits::default() }
}

/// What must come, and comes long before this.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), work).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

impl Script {
    pub(crate) async fn new() -> (Self, Upstream) {
        Self::with(limits(), Http2Limits::default()).await
    }

    /// A listener, and a client of it.
    pub(crate) async fn with(limits: UpstreamLimits, http2: Http2Limits) -> (Self, Upstream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::tcp(&listener.local_addr().unwrap().to_string());
        (Self { listener }, Upstream::with_http2(address, limits, http2))
    }

    /// The next connection, as a socket.
    pub(crate) async fn socket(&self) -> TcpStream {
        let (stream, _) = within("a connection", self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub(crate) async fn accept(&self) -> Peer {
        self.accept_with(&h2::server::Builder::new()).await
    }

    pub(crate) async fn accept_with(&self, builder: &h2::server::Builder) -> Peer {
        let mut connection = within("a handshake", builder.handshake(self.socket().await)).await.unwrap();
        let (tell, requests) = mpsc::unbounded_channel();
        let (leave, mut told) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    asked = connection.accept() => match asked {
                        Some(Ok(asked)) => {
                            let _ = tell.send(asked);
                        }
                        Some(Err(_)) | None => return,
                    },
                    Some(()) = told.recv() => connection.graceful_shutdown(),
                }
            }
        });
        Peer { requests, leave, task }
    }

    /// Whether somebody has connected and was not accepted yet.
    pub(crate) async fn has_another(&self) -> bool {
        timeout(Duration::from_millis(50), self.listener.accept()).await.is_ok()
    }

    /// A connection on which one request came; the rest is bytes.
    pub(crate) async fn raw(&self) -> TcpStream {
        let mut stream = self.socket().await;
        stream.read_exact(&mut [0; 24]).await.unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        stream
    }
}

impl Peer {
    pub(crate) async fn request(&mut self) -> Asked {
        within("a request", self.requests.recv()).await.unwrap()
    }

    /// Says that it leaves: what has begun is finished.
    pub(crate) fn leave(&self) {
        self.leave.send(()).unwrap();
    }

    /// Closes the connection, whatever is on it.
    pub(crate) fn cut(self) {
        self.task.abort();
    }

    /// Whether the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the connection's end.
    pub(crate) async fn ended(self) {
        let _ = within("the end of a connection", self.task).await;
    }
}

/// A frame's bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Reads on until a request's head has come.
pub(crate) async fn read_head(stream: &mut TcpStream) {
    let read = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                return;
            }
        }
    };
    within("a head", read).await;
}

/// A 200 whose body is still to come.
pub(crate) fn ok(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    respond.send_response(Response::new(()), false).unwrap()
}

/// A whole answer.
pub(crate) fn answer(mut respond: SendResponse<Bytes>, text: &'static str) {
    ok(&mut respond).send_data(Bytes::from_static(text.as_bytes()), true).unwrap();
}

/// Sends a request without a body.
pub(crate) async fn send(lease: StreamLease, method: Method) -> Result<Response<UpstreamBody>, SendFault> {
    let fields = HeaderMap::from_iter([(HOST, HeaderValue::from_static("cell"))]);
    let target = PathAndQuery::from_static("/a");
    let head = Head {
        method: &method,
        target: &target,
        fields: &fields,
        withheld: |_| false,
        lines: &FieldLines::default(),
        upgrade: false,
    };
    within("an answer", lease.send(head, &ReplayBody::empty())).await
}

pub(crate) async fn get(upstream: &Upstream) -> Result<Response<UpstreamBody>, SendFault> {
    send(upstream.stream(false).await.unwrap(), Method::GET).await
}
