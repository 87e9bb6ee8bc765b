//! What belongs to this one agent process, and so comes by flags and not by the fleet file.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use cofferdam_fleet::Trusted;
use cofferdam_model::CellId;
use cofferdam_proxy::census;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::serve::ServeLimits;
use cofferdam_proxy::upstream::{HeadLimits, Names, UpstreamLimits};
use cofferdam_proxy::workers::RuntimeFlavour;

use crate::backend::Backend;

/// How long an unused connection to a backend is kept: uvicorn and Node close theirs after 5 s.
const BACKEND_IDLE: Duration = Duration::from_secs(4);

/// Which protocol a backend is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendProtocol {
    /// HTTP/2 for calls of gRPC, HTTP/1.1 for everything else.
    Auto,
    /// HTTP/1.1 alone: calls of gRPC are refused.
    Http1,
    /// HTTP/2 with prior knowledge for everything: WebSocket is refused.
    Http2,
}

/// Settings of one agent process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cell that this agent stands in front of.
    pub cell: CellId,
    /// The cell's backend.
    pub backend: Backend,
    /// What the backend is spoken to in.
    pub backend_protocol: BackendProtocol,
    /// The routers: peers whose word on class, attempt and remaining time counts.
    pub trusted_routers: Trusted,
    /// How many workers serve; by default one for each data listener.
    pub workers: Option<NonZeroUsize>,
    /// Whether each worker has a thread of its own, or all have the same.
    pub runtime: RuntimeFlavour,
    /// How long readiness is off before nothing new is accepted, so that routers can look away.
    pub drain_grace: Duration,
    /// How long what is in flight may still take after that.
    pub drain_deadline: Duration,
    /// Bounds on the connections of each worker's clients.
    pub serve: ServeLimits,
    /// The most connections in all, shared out evenly among workers; by default as many for each as `serve` says.
    pub max_connections: Option<NonZeroU32>,
    /// The most connections of one peer address; routers have no such bound.
    pub max_connections_per_address: NonZeroU32,
    /// Bounds on request bodies.
    pub body: BodyLimits,
    /// Bounds on each worker's connections to the backend. Unused ones are closed sooner than the usual backends do it.
    pub upstream: UpstreamLimits,
    /// How often refusals are summed up in the log; never at zero.
    pub refusals_every: Duration,
    /// The names by which operators ask the admin listener, beside this machine's own.
    pub admin_hosts: Vec<String>,
    /// How often it is checked that the backend takes connections.
    pub check_every: Duration,
    /// What resolves the backend's name.
    pub names: Names,
}

impl Settings {
    /// Settings for `cell` and its `backend`; routers are looked for on this machine alone.
    pub fn new(cell: CellId, backend: Backend) -> Self {
        Self {
            cell,
            backend,
            backend_protocol: BackendProtocol::Auto,
            trusted_routers: Trusted::loopback(),
            workers: None,
            runtime: RuntimeFlavour::default(),
            drain_grace: Duration::ZERO,
            drain_deadline: Duration::from_secs(30),
            serve: ServeLimits::default().behind_a_hop(),
            max_connections: None,
            max_connections_per_address: census::DEFAULT_PER_ADDRESS,
            body: BodyLimits::default(),
            upstream: UpstreamLimits {
                idle: BACKEND_IDLE,
                head: HeadLimits::OUTSIDE,
                ..UpstreamLimits::default()
            },
            refusals_every: Duration::from_secs(60),
            admin_hosts: Vec::new(),
            check_every: Duration::from_millis(500),
            names: Names::default(),
        }
    }
}
