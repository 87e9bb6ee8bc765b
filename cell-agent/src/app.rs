//! The only composer: compartments, workers, the probe listener and the watch over the backend become one agent, and
//! leave together.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use cofferdam_bulkhead::{Compartments, LayoutError};
use cofferdam_fleet::Fleet;
use cofferdam_model::{CellId, ClassName, FleetName, TenantId};
use cofferdam_proxy::census::Census;
use cofferdam_proxy::drain::{Drain, Phase};
use cofferdam_proxy::listen;
use cofferdam_proxy::serve::serve_each;
use cofferdam_proxy::upstream::{Upstream, UpstreamLimits};
use cofferdam_proxy::via::Via;
use cofferdam_proxy::workers::Workers;
use cofferdam_telemetry::aside::Aside;
use cofferdam_telemetry::probes::Probes;
use cofferdam_telemetry::process::{self, Build};
use cofferdam_telemetry::refusals::Refusals;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::admin;
use crate::classify::Classifier;
use crate::drills::{Drills, DrillsCollector};
use crate::health::{self, Health};
use crate::journey::{Cell, Journey};
use crate::leaving::Leaving;
use crate::metrics::{CompartmentsCollector, Metrics};
use crate::rates::Rates;
use crate::report::{self, LoadField};
use crate::routers::Routers;
use crate::rules::{self, ReloadError, Rules, RulesCollector};
use crate::settings::Settings;

/// Which build this is.
const BUILD: Build = Build {
    metric: "cofferdam_build",
    version: env!("CARGO_PKG_VERSION"),
    revision: option_env!("COFFERDAM_REVISION"),
};

/// The agent of one cell.
#[derive(Debug)]
pub struct Agent;

/// Listeners that the caller has bound; all are non-blocking.
#[derive(Debug)]
pub struct Listeners {
    /// One for each worker, on one port. Workers and sockets may be more or fewer than each other.
    pub data: Vec<TcpListener>,
    /// Health, metrics and saturation.
    pub probes: Option<TcpListener>,
    /// Drills, which are allowed where this is there.
    pub admin: Option<TcpListener>,
}

/// An agent that runs, until it is shut down.
pub struct Running {
    drain: Drain,
    grace: Duration,
    deadline: Duration,
    id: CellId,
    /// How many connections to the backend each worker may have.
    max_connections: usize,
    rules: Arc<ArcSwap<Rules>>,
    compartments: Compartments,
    metrics: Arc<Metrics>,
    workers: Workers,
    health: Arc<Health>,
    leaving: Leaving,
    /// The watch over the backend, and over the counters.
    control: JoinSet<()>,
    /// What was refused since it was last told, where it is told.
    refusals: Option<Refusals<ClassName, TenantId>>,
    /// The probe listener.
    aside: Aside,
}

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The fleet file has no such cell.
    #[error("cell {0} is not in fleet {1}")]
    UnknownCell(CellId, FleetName),
    /// The cell cannot be divided as the fleet file says.
    #[error("cell cannot be divided")]
    Layout(#[from] LayoutError),
    /// The names of fleet and cell cannot stand in a header.
    #[error("names of fleet and cell cannot stand in a header")]
    Name(#[from] http::header::InvalidHeaderValue),
    /// Threads or sockets.
    #[error("could not start")]
    Io(#[from] io::Error),
}

impl Agent {
    /// Starts an agent: its worker threads, and control tasks on the calling tokio runtime.
    pub fn start(fleet: &Fleet, settings: Settings, listeners: Listeners) -> Result<Running, StartError> {
        if !fleet.cells.iter().any(|cell| cell.id == settings.cell) {
            return Err(StartError::UnknownCell(settings.cell, fleet.name.clone()));
        }
        let compartments = Compartments::new(rules::layout(fleet)?);
        let mut registry = Registry::default();
        process::register(&mut registry, BUILD);
        registry.register_collector(Box::new(CompartmentsCollector(compartments.clone())));
        let metrics = Metrics::register(&mut registry);
        let rules = Rules::new(Arc::new(fleet.clone()), &compartments, &metrics, None);
        let rules = Arc::new(ArcSwap::from_pointee(rules));
        registry.register_collector(Box::new(RulesCollector(Arc::clone(&rules))));
        let routers = Arc::new(Routers::new(settings.trusted_routers.clone()));
        routers.register(&mut registry);
        let census = Census::register(&mut registry, "cofferdam_agent", settings.max_connections_per_address);
        let drain = Drain::default();
        let (mut control, mut aside) = (JoinSet::new(), Aside::default());
        let health = watch_backend(&settings, &mut control);
        let (rates, leaving) = (Rates::default(), Leaving::default());
        control.spawn(rates.clone().watch(Arc::clone(&metrics), compartments.clone()));
        let drills = listeners.admin.is_some().then(|| Arc::new(Drills::default()));
        let source = report::Source {
            cell: settings.cell.clone(),
            compartments: compartments.clone(),
            routers: Arc::clone(&routers),
            rates: rates.clone(),
            leaving: leaving.clone(),
            drills: drills.clone(),
            rules: Arc::clone(&rules),
        };
        if let (Some(listener), Some(drills)) = (listeners.admin, &drills) {
            registry.register_collector(Box::new(DrillsCollector(Arc::clone(drills))));
            let routes = admin::routes(Arc::clone(drills), Arc::clone(&rules));
            let routes = routes.merge(report::operators_routes(source.clone()));
            aside.serve_operators(listener, routes, &settings.admin_hosts);
        }
        if let Some(listener) = listeners.probes {
            let saturation = report::routes(source);
            let ready = readiness(Arc::clone(&health), &drain);
            let routes = Probes::new(registry, ready).routes().merge(saturation);
            // Who asks a process that follows another hears what that one would have said.
            let looked = Arc::clone(&health);
            aside.serve_after(async move { looked.seen().await }, listener, routes);
        }
        let cell = Arc::new(Cell {
            // No name of a fleet or a cell has a plus sign, so this is no other fleet's router and no other cell.
            via: Via::new(&format!("cofferdam-{}+{}", fleet.name, settings.cell))?,
            classifier: Classifier::new(Arc::clone(&rules), routers),
            compartments: compartments.clone(),
            metrics: Arc::clone(&metrics),
            census,
            body: settings.body,
            backend_protocol: settings.backend_protocol,
            drills,
            last_good: Arc::default(),
            leaving: leaving.clone(),
        });
        // All the cell's places may come to lie with one worker: who has a place is not refused a connection.
        let places = fleet.cell.max_in_flight as usize;
        let max_connections = settings.upstream.max_connections.max(places);
        let upstream = UpstreamLimits { max_connections, ..settings.upstream };
        let refusals = Refusals::default();
        control.spawn(refusals.clone().tell_for_ever(settings.refusals_every));
        let workers = start_workers(&settings, upstream, cell, rates, &refusals, listeners.data, &drain)?;
        let refusals = (!settings.refusals_every.is_zero()).then_some(refusals);
        let (grace, deadline) = (settings.drain_grace, settings.drain_deadline);
        let id = settings.cell;
        Ok(Running {
            drain,
            grace,
            deadline,
            id,
            max_connections,
            rules,
            compartments,
            metrics,
            workers,
            health,
            leaving,
            control,
            refusals,
            aside,
        })
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("drain", &self.drain).finish_non_exhaustive()
    }
}

impl Running {
    /// Takes a new fleet file, or keeps the old one and says why. Nobody who is in the cell or waits for a place is
    /// disturbed: what is above a limit now drains. Only one thread may call this.
    ///
    /// # Errors
    /// The file is another fleet's, or older, has this cell no more, or divides it in a way that cannot be.
    pub fn reload(&self, fleet: Fleet) -> Result<(), ReloadError> {
        let running = self.rules.load();
        let places = fleet.cell.max_in_flight as usize;
        let rules = running.follow(fleet, &self.id, &self.compartments, &self.metrics)?;
        if places > self.max_connections {
            let connections = self.max_connections;
            tracing::warn!(places, connections, "more places than a worker may have connections: start anew");
        }
        self.rules.store(Arc::new(rules));
        Ok(())
    }

    /// Leaves in good order: readiness turns; after the grace nothing new is let in and whoever waits for a place is
    /// refused, so that the router can turn to the other cell; what is in flight is finished, and cut at the deadline.
    pub async fn shutdown(self) {
        let (grace, deadline) = (self.grace, self.deadline);
        tracing::info!(?grace, ?deadline, "leaving");
        self.drain.advance(Phase::Leaving);
        tokio::time::sleep(grace).await;
        self.compartments.close();
        self.end().await;
    }

    /// Leaves to a successor that serves on the same sockets already: nothing is accepted any more, on any of them, and
    /// readiness is the successor's to tell. Who waits for a place has it in its turn; at the deadline the rest is cut.
    pub async fn hand_over(mut self) {
        std::mem::take(&mut self.aside).hand_over().await;
        self.end().await;
    }

    /// The process that this one follows has begun to drain. It has as long for that as this one would, and says no more to whoever
    /// asks, so this one does.
    pub fn follow(&self) {
        self.leaving.follow(self.deadline);
    }

    /// Waits until the backend was looked at once, so that readiness knows what it says.
    pub async fn settled(&self) {
        self.health.seen().await;
    }

    async fn end(self) {
        let Self { drain, deadline, compartments, metrics, workers, mut control, refusals, .. } = self;
        self.leaving.begin(deadline);
        drain.advance(Phase::Draining);
        let mut ended = tokio::task::spawn_blocking(move || workers.join());
        if tokio::time::timeout(deadline, &mut ended).await.is_err() {
            let in_flight = compartments.snapshot().used;
            let tunnels = metrics.tunnels.n_open();
            tracing::warn!(in_flight, tunnels, "drain deadline passed: what is left is cut");
            drain.advance(Phase::Cut);
            let _ = ended.await;
        }
        control.shutdown().await;
        if let Some(refusals) = refusals {
            refusals.tell();
        }
    }
}

fn watch_backend(settings: &Settings, control: &mut JoinSet<()>) -> Arc<Health> {
    let health = Arc::new(Health::default());
    let (backend, patience) = (settings.backend.address(&settings.names), settings.upstream.connect);
    control.spawn(health::watch(Arc::clone(&health), backend, settings.check_every, patience));
    health
}

fn readiness(health: Arc<Health>, drain: &Drain) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let drain = drain.clone();
    move || match drain.phase() {
        Phase::Serving => health.ready(),
        Phase::Leaving | Phase::Draining | Phase::Cut => Err("draining".to_owned()),
    }
}

fn start_workers(
    settings: &Settings,
    upstream_limits: UpstreamLimits,
    cell: Arc<Cell>,
    rates: Rates,
    refusals: &Refusals<ClassName, TenantId>,
    listeners: Vec<TcpListener>,
    drain: &Drain,
) -> io::Result<Workers> {
    let n_workers = settings.workers.map_or(listeners.len(), NonZeroUsize::get);
    let limits = settings.serve.sharing(settings.max_connections, n_workers.max(listeners.len()));
    let backend = settings.backend.address(&settings.names);
    let worker = |listeners| {
        let upstream = Upstream::to(backend.clone(), upstream_limits);
        let load = LoadField::new(cell.compartments.clone(), rates.clone());
        let refusals = refusals.worker();
        let journey = Arc::new(Journey { cell: Arc::clone(&cell), upstream, load, refusals });
        let watch = drain.watch();
        async move {
            if let Err(error) = serve_each(listeners, limits, journey, watch).await {
                tracing::error!(%error, "data listener failed");
            }
        }
    };
    let workers = listen::deal(listeners, n_workers)?.into_iter().map(worker).collect();
    Workers::start("agent", settings.runtime, workers)
}
