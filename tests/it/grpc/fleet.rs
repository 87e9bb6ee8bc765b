//! A router and two agents in this process, in front of backends of gRPC; and calls through them.

use std::net::SocketAddr;

use bytes::Bytes;
use cofferdam_agent::{Agent, BackendProtocol, Listeners, Running, Settings};
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use http::{Method, Request};

use super::backend::Backend;
use crate::http2::client::{Answer, Client, finish, request, with};
use crate::support::ANY;
use crate::support::files::{PINS, cell_id, fleet};
use crate::support::routers::{TestRouter, parse, settings};

/// A router and its cells. `acme` is at home on the first, `globex` on the second.
pub(crate) struct GrpcFleet {
    pub(crate) router: TestRouter,
    pub(crate) agents: Vec<Running>,
    pub(crate) backends: Vec<Backend>,
}

impl GrpcFleet {
    pub(crate) async fn start(rest: &str) -> Self {
        Self::with(rest, |_| {}).await
    }

    /// The same, with other settings of the agents.
    pub(crate) async fn with(rest: &str, set: impl Fn(&mut Settings)) -> Self {
        let backends = vec![Backend::start("home").await, Backend::start("second").await];
        let addresses: Vec<_> = backends.iter().map(|backend| backend.address).collect();
        let (router, agents) = before(&addresses, rest, set);
        Self { router, agents, backends }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.router.data).await
    }
}

/// A router and an agent for each backend.
pub(crate) fn before(
    backends: &[SocketAddr],
    rest: &str,
    set: impl Fn(&mut Settings),
) -> (TestRouter, Vec<Running>) {
    let sockets: Vec<_> = backends.iter().map(|_| listen::one(ANY).unwrap()).collect();
    let addresses: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let text = fleet(&addresses, &format!("{PINS}{rest}"));
    let agents = sockets.into_iter().zip(backends).enumerate().map(|(index, (socket, backend))| {
        let origin = format!("http://{backend}").parse().unwrap();
        let mut settings = Settings::new(CellId::parse(&cell_id(index)).unwrap(), origin);
        set(&mut settings);
        let listeners = Listeners { data: vec![socket], probes: None, admin: None };
        Agent::start(&parse(&text), settings, listeners).unwrap()
    });
    let agents = agents.collect();
    (TestRouter::with(&text, settings(), 1), agents)
}

/// Agents that speak this to their backends.
pub(crate) fn speaking(protocol: BackendProtocol) -> impl Fn(&mut Settings) {
    move |settings| settings.backend_protocol = protocol
}

/// A call's head.
pub(crate) fn call(path: &str, tenant: &str) -> Request<()> {
    let head = request(Method::POST, path, tenant);
    with(with(head, "content-type", "application/grpc+proto"), "te", "trailers")
}

/// A call of one message, to its end.
pub(crate) async fn unary(client: &mut Client, head: Request<()>, message: &'static str) -> Answer {
    let (answer, mut body) = client.begin(head, false).await;
    // A call can have been refused by now.
    let _ = body.send_data(Bytes::from_static(message.as_bytes()), true);
    finish(answer).await.unwrap()
}

/// A field of how a call ended: in its trailers, or in its head where that is all there is.
pub(crate) fn end<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let fields = answer.trailers.as_ref().unwrap_or(answer.head.headers());
    fields.get(name).map(|value| value.to_str().unwrap())
}

/// A refusal: 200, a head alone, and this status of gRPC's.
#[track_caller]
pub(crate) fn refused(answer: &Answer, status: &str) {
    assert_eq!(
        (answer.status(), answer.field("content-type")),
        (200, Some("application/grpc")),
        "{answer:?}"
    );
    assert!(answer.body.is_empty() && answer.trailers.is_none(), "{answer:?}");
    assert_eq!(answer.field("grpc-status"), Some(status), "{answer:?}");
    assert!(answer.field("grpc-message").is_some());
    assert!(answer.head.headers().keys().all(|name| !name.as_str().starts_with("cofferdam")), "{answer:?}");
}
