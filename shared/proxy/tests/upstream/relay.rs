//! A client, a relay of a few lines, and a scripted upstream behind it: request bodies come from a real connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::drain::Drain;
use cofferdam_proxy::fields::strip_hop_by_hop;
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::listen;
use cofferdam_proxy::payload::Payload;
use cofferdam_proxy::replay::{BodyLimits, ReplayBody};
use cofferdam_proxy::serve::{ServeLimits, Service, serve};
use cofferdam_proxy::upstream::{Head, SendFault, Upstream, UpstreamBody};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::script::{Script, limits};

#[derive(Clone)]
struct Relay(Upstream);

impl Relay {
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<UpstreamBody>, SendFault> {
        let (mut parts, body) = request.into_parts();
        // Bounds that no test reaches.
        let bounds = BodyLimits { max_bytes: 1 << 30, idle: Duration::from_secs(3600) };
        let body = ReplayBody::new(body, bounds);
        strip_hop_by_hop(&mut parts.headers);
        let target = parts.uri.path_and_query().unwrap();
        let lease = self.0.lease().await.unwrap();
        lease
            .send(
                Head {
                    method: &parts.method,
                    target,
                    fields: &parts.headers,
                    withheld: |_| false,
                    lines: &FieldLines::default(),
                    upgrade: false,
                },
                &body,
                Instant::now() + Duration::from_secs(3600),
            )
            .await
    }
}

impl Service for Relay {
    type Body = Payload;

    async fn call(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Payload> {
        match self.forward(request).await {
            Ok(mut response) => {
                strip_hop_by_hop(response.headers_mut());
                response.map(|body| Payload::Upstream(body, |_| false))
            }
            Err(fault) => {
                let mut response = Response::new(Payload::from(Bytes::from(fault.to_string())));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }
}

/// The client's side of its connection to the relay.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    // The relay serves for as long as this stands.
    drain: Drain,
}

impl Client {
    /// A client that is connected to a relay in front of a script.
    pub(crate) async fn new() -> (Self, Script) {
        let (script, upstream) = Script::new(limits()).await;
        let listener = listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let drain = Drain::default();
        tokio::spawn(serve(listener, ServeLimits::default(), Relay(upstream), drain.watch()));
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        (Self { stream, drain }, script)
    }

    /// A client with a connection of its own to the same relay.
    pub(crate) async fn another(&self) -> Self {
        let stream = TcpStream::connect(self.stream.peer_addr().unwrap()).await.unwrap();
        Self { stream, drain: self.drain.clone() }
    }

    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// What comes, up to and with `end`.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        let mut all = Vec::new();
        while !all.ends_with(end.as_bytes()) {
            match self.stream.read_u8().await {
                Ok(byte) => all.push(byte),
                Err(error) => panic!("{error} after {}", all.escape_ascii()),
            }
        }
        String::from_utf8(all).unwrap()
    }
}
