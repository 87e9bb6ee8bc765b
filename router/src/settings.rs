//! What belongs to this one router process, and so comes by flags and not by the fleet file.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_proxy::census;
use cofferdam_proxy::handover::Ownership;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::serve::ServeLimits;
use cofferdam_proxy::upstream::{Names, UpstreamLimits};
use cofferdam_proxy::workers::RuntimeFlavour;

use crate::shared_limits::SharedStore;

/// Settings of one router process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many workers serve; by default one for each data listener.
    pub workers: Option<NonZeroUsize>,
    /// Whether each worker has a thread of its own, or all have the same.
    pub runtime: RuntimeFlavour,
    /// How long readiness is off before nothing new is accepted, so that balancers can look away.
    pub drain_grace: Duration,
    /// How long what is in flight may still take after that.
    pub drain_deadline: Duration,
    /// Bounds on clients' connections.
    pub serve: ServeLimits,
    /// The most connections in all, shared out evenly among workers; by default as many for each as `serve` says.
    pub max_connections: Option<NonZeroU32>,
    /// The most connections of one client address; an address that is trusted with a tenant header has no such bound.
    pub max_connections_per_address: NonZeroU32,
    /// Bounds on request bodies.
    pub body: BodyLimits,
    /// Bounds on connections to cells.
    pub upstream: UpstreamLimits,
    /// How often refusals are summed up in the log; never at zero.
    pub refusals_every: Duration,
    /// How often each cell's probe is asked.
    pub probe_every: Duration,
    /// What resolves the names of cells and their probes.
    pub names: Names,
    /// The store that holds the fleet's limits; without one this router has limits of its own.
    pub store: Option<SharedStore>,
    /// How long a router that starts waits for the store's first answer before it serves without.
    pub first_answer_wait: Duration,
    /// The folder in which this router, and no other, keeps what it has to know before it can ask the store.
    pub state: Option<PathBuf>,
    /// The names by which operators ask the admin listener, beside this machine's own.
    pub admin_hosts: Vec<String>,
    /// Whether that folder is this process's to change, as far as no store says what is in it.
    pub ownership: Ownership,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: None,
            runtime: RuntimeFlavour::default(),
            drain_grace: Duration::ZERO,
            drain_deadline: Duration::from_secs(30),
            serve: ServeLimits::default(),
            max_connections: None,
            max_connections_per_address: census::DEFAULT_PER_ADDRESS,
            body: BodyLimits::default(),
            upstream: UpstreamLimits::default(),
            refusals_every: Duration::from_secs(60),
            probe_every: Duration::from_millis(500),
            names: Names::default(),
            store: None,
            first_answer_wait: Duration::from_secs(1),
            state: None,
            admin_hosts: Vec::new(),
            ownership: Ownership::default(),
        }
    }
}
