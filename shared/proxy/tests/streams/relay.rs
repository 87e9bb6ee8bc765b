//! A client of HTTP/2, a relay of a few lines, and a scripted server behind it: request bodies come from a real stream.

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
use cofferdam_proxy::target;
use cofferdam_proxy::trailers::Withheld;
use cofferdam_proxy::upstream::{Head, Upstream, UpstreamLimits};
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpStream;

use crate::script::{Script, within};

#[derive(Clone)]
struct Relay(Upstream, BodyLimits);

fn is_internal(name: &HeaderName) -> bool {
    name.as_str().starts_with("internal-")
}

impl Service for Relay {
    type Body = Payload;

    async fn call(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Payload> {
        let (mut parts, body) = request.into_parts();
        target::settle(&mut parts).unwrap();
        let body = ReplayBody::without(body, parts.version, self.1, || {
            Withheld::new(&parts.headers, is_internal, [])
        });
        strip_hop_by_hop(&mut parts.headers);
        let target = parts.uri.path_and_query().unwrap();
        let lines = FieldLines::default();
        let head = Head {
            method: &parts.method,
            target,
            fields: &parts.headers,
            withheld: |_| false,
            lines: &lines,
            upgrade: false,
        };
        let lease = self.0.stream(false).await.unwrap();
        match Box::pin(lease.send(head, &body)).await {
            Ok(response) => response.map(|body| Payload::Upstream(body, is_internal)),
            Err(fault) => {
                let mut response = Response::new(Payload::from(Bytes::from(format!("{fault:?}"))));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }
}

/// A client that is connected to a relay in front of a script.
pub(crate) struct Client {
    requests: SendRequest<Bytes>,
    // The relay serves for as long as this stands.
    _drain: Drain,
}

impl Client {
    pub(crate) async fn new(limits: UpstreamLimits, idle: Duration) -> (Self, Script) {
        let (script, upstream) = Script::with(limits, Default::default()).await;
        let listener = listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let drain = Drain::default();
        let bounds = BodyLimits { max_bytes: 1 << 30, idle };
        tokio::spawn(serve(listener, ServeLimits::default(), Relay(upstream, bounds), drain.watch()));
        let stream = TcpStream::connect(address).await.unwrap();
        let (requests, connection) = within("a handshake", h2::client::handshake(stream)).await.unwrap();
        tokio::spawn(connection);
        (Self { requests, _drain: drain }, script)
    }

    /// Begins a POST whose body is still to come.
    pub(crate) async fn post(&mut self) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post("http://cell/a").body(()).unwrap();
        let mut ready = within("room", self.requests.clone().ready()).await.unwrap();
        ready.send_request(request, false).unwrap()
    }
}
