//! The only composer: puts snapshot, limits, cells, data path, admin and probes together, and takes them apart again.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use cofferdam_fleet::Fleet;
use cofferdam_limits::redis::RedisStore;
use cofferdam_model::{ClassName, TenantId};
use cofferdam_proxy::census::Census;
use cofferdam_proxy::drain::{Drain, Phase, Watch};
use cofferdam_proxy::listen;
use cofferdam_proxy::serve::{ServeLimits, serve_each};
use cofferdam_proxy::workers::Workers;
use cofferdam_telemetry::aside::Aside;
use cofferdam_telemetry::probes::Probes;
use cofferdam_telemetry::process::{self, Build};
use cofferdam_telemetry::prometheus_client::registry::Registry;
use cofferdam_telemetry::refusals::Refusals;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::accepted::{Ledger, Offered, Telling};
use crate::admin::{self, Admin};
use crate::before::Before;
use crate::cells::{Directory, RestraintCollector, probe_for_ever};
use crate::data_path::{self, DataPath};
use crate::door::Doors;
use crate::limits_metrics::LimitsMetrics;
use crate::moves::{Moves, MovesCollector};
use crate::overrides::placement::Changes;
use crate::overrides::{Overrides, OverridesCollector};
use crate::releasing::{ReleaseCollector, Releasing};
use crate::reloads::{Outcome, Reloads};
use crate::running_table::RunningTable;
use crate::settings::Settings;
use crate::shared_limits::{self, RouterLimits, SharingError};
use crate::sharing_metrics::SharingCollector;
use crate::snapshot::{Forced, ReloadError, Snapshot};
use crate::start_gate::StartGate;
use crate::state_dir::StateDir;
use crate::taking::{self, Taking};
use crate::top::Top;

/// Which build this is.
const BUILD: Build = Build {
    metric: "cofferdam_build",
    version: env!("CARGO_PKG_VERSION"),
    revision: option_env!("COFFERDAM_REVISION"),
};

/// Sockets that the caller has bound, all non-blocking.
#[derive(Debug)]
pub struct Listeners {
    /// Client traffic: one for each worker, on one port. Workers and sockets may be more or fewer than each other.
    pub data: Vec<TcpListener>,
    /// Operators' questions; keep it on loopback.
    pub admin: Option<TcpListener>,
    /// `/healthz`, `/readyz`, `/metrics`.
    pub probes: Option<TcpListener>,
}

/// Why a router could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The limits cannot be shared.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// The fleet makes no snapshot.
    #[error(transparent)]
    Fleet(#[from] ReloadError),
    /// A thread or socket could not be had.
    #[error("could not start")]
    Io(#[from] io::Error),
}

/// How long the store has to take back what a router that stops holds on loan.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A running router.
#[derive(Debug)]
pub struct Router {
    snapshots: Arc<ArcSwap<Snapshot>>,
    overrides: Arc<Overrides>,
    ledger: Arc<Ledger>,
    /// Held by whoever replaces the fleet.
    replacing: tokio::sync::Mutex<()>,
    shared: Option<Arc<RedisStore>>,
    directory: Directory,
    metrics: data_path::Metrics,
    last_reload_error: Arc<Mutex<Option<String>>>,
    reloads: Reloads,
    drain: Drain,
    gate: StartGate,
    settings: Settings,
    workers: Workers,
    /// The prober, and who follows the store's overrides.
    control: JoinSet<()>,
    /// What was refused since it was last told.
    refusals: Refusals<ClassName, TenantId>,
    /// Admin and probes.
    aside: Aside,
    data_address: SocketAddr,
}

impl Router {
    /// Starts the workers, and the control tasks on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// Where the fleet makes no snapshot, or may not follow what was accepted `before`, or a thread cannot be had. Nothing
    /// runs then.
    pub fn start(
        fleet: Fleet,
        settings: Settings,
        listeners: Listeners,
        before: Before,
    ) -> Result<Self, StartError> {
        let directory = Directory::new(settings.names.clone());
        let state = settings.state.as_deref().map(StateDir::open).transpose()?;
        let RouterLimits { limits, shared, books, accepted: book, release } =
            RouterLimits::start(&fleet, settings.store.as_ref())?;
        let taking = taking::first(fleet, &directory, before, shared.is_some())?;
        let Taking { mut snapshot, accepted, forced, .. } = taking;
        tell_of_force(forced.as_ref());
        snapshot.forced = forced;
        directory.install(&snapshot.cells, snapshot.fleet.health);
        let snapshots = Arc::new(ArcSwap::from_pointee(snapshot));
        let ledger = Arc::new(Ledger::new(state.clone(), book));
        ledger.keep_first(accepted);
        let (kept, owned) = (state.clone(), &settings.ownership);
        let overrides = Arc::new(Overrides::new(Arc::clone(&snapshots), books, kept, owned));
        let (running, owned) = (Arc::clone(&snapshots), settings.ownership.clone());
        let releasing = Arc::new(Releasing::new(running, Arc::clone(&ledger), release, state, owned));
        let mut registry = Registry::default();
        process::register(&mut registry, BUILD);
        let metrics = data_path::Metrics::register(&mut registry);
        let reloads = Reloads::register(&mut registry);
        let census =
            Census::register(&mut registry, "cofferdam_router", settings.max_connections_per_address);
        registry.register_collector(Box::new(directory.clone()));
        registry.register_collector(Box::new(RestraintCollector(directory.clone())));
        registry.register_collector(Box::new(RunningTable(Arc::clone(&snapshots), Arc::clone(&ledger))));
        registry.register_collector(Box::new(LimitsMetrics::new(limits.clone())));
        registry.register_collector(Box::new(OverridesCollector::new(Arc::clone(&overrides.limits))));
        registry.register_collector(Box::new(OverridesCollector::new(Arc::clone(&overrides.placement))));
        registry.register_collector(Box::new(ReleaseCollector(Arc::clone(&releasing))));
        let (changes, doors) = (Changes::register(&mut registry), Doors::default());
        let (kept, store) = (Arc::clone(&overrides.placement), shared.clone());
        let moves = Arc::new(Moves::new(kept, doors.clone(), store, changes.clone()));
        registry.register_collector(Box::new(MovesCollector(Arc::clone(&moves))));
        if let Some(store) = &shared {
            registry.register_collector(Box::new(SharingCollector::new(Arc::clone(store))));
        }
        let (top, last_reload_error) = (Top::default(), Arc::default());
        let drain = Drain::default();
        let data_address =
            listeners.data.first().ok_or(io::ErrorKind::InvalidInput).map(TcpListener::local_addr);
        let data_address = data_address.map_err(io::Error::from)??;
        let n_workers = settings.workers.map_or(listeners.data.len(), NonZeroUsize::get);
        let serve = settings.serve.sharing(settings.max_connections, n_workers.max(listeners.data.len()));
        let (gate, open_gate) = StartGate::new(shared.clone(), settings.first_answer_wait);
        let workers = listen::deal(listeners.data, n_workers)?.into_iter().map(|listeners| {
            let path = DataPath::new(
                Arc::clone(&overrides),
                doors.worker(),
                limits.clone(),
                metrics.clone(),
                census.clone(),
                top.worker(),
                &settings,
            );
            worker(listeners, Arc::new(path), serve, gate.clone(), drain.watch())
        });
        let workers = Workers::start("data", settings.runtime, workers.collect())?;
        let (mut control, mut aside) = (JoinSet::new(), Aside::default());
        control.spawn(open_gate);
        control.spawn(probe_for_ever(directory.clone(), settings.probe_every));
        let refusals = top.refusals.clone();
        control.spawn(refusals.clone().tell_for_ever(settings.refusals_every));
        overrides.follow(&mut control);
        control.spawn(Arc::clone(&releasing).follow());
        control.spawn(Arc::clone(&ledger).follow());
        control.spawn(Arc::clone(&moves).run());
        let admin = Admin {
            snapshots: Arc::clone(&snapshots),
            overrides: Arc::clone(&overrides),
            changes,
            releasing,
            moves,
            limits,
            shared: shared.clone(),
            top,
            last_reload_error,
        };
        let last_reload_error = Arc::clone(&admin.last_reload_error);
        if let Some(listener) = listeners.admin {
            aside.serve_operators(listener, admin::routes(admin), &settings.admin_hosts);
        }
        if let Some(listener) = listeners.probes {
            aside.serve(listener, Probes::new(registry, readiness(drain.clone(), gate.clone())).routes());
        }
        Ok(Self {
            snapshots,
            overrides,
            ledger,
            replacing: tokio::sync::Mutex::default(),
            shared,
            directory,
            metrics,
            last_reload_error,
            reloads,
            drain,
            gate,
            settings,
            workers,
            control,
            refusals,
            aside,
            data_address,
        })
    }

    /// Where the data listener is.
    pub fn data_address(&self) -> SocketAddr {
        self.data_address
    }

    /// Waits until this router serves: at once, unless it shares its limits and the store has not answered yet.
    pub async fn serving(&self) {
        self.gate.opened().await;
    }

    /// Replaces the fleet, or keeps the old one and says why. Where this is given up half way, the old one goes on.
    pub async fn reload(&self, fleet: Fleet) -> Result<(), ReloadError> {
        let done = self.replace(fleet).await;
        self.reloads.count(done.as_ref().map_or_else(Outcome::from, |outcome| *outcome));
        *self.last_reload_error.lock() = done.as_ref().err().map(ToString::to_string);
        done.map(drop)
    }

    /// Takes note of a fleet file that could not even be read; what runs goes on.
    pub fn reload_failed(&self, why: impl Into<String>) {
        self.reloads.count(Outcome::Unreadable);
        *self.last_reload_error.lock() = Some(why.into());
    }

    async fn replace(&self, fleet: Fleet) -> Result<Outcome, ReloadError> {
        let _alone = self.replacing.lock().await;
        let (running, directory) = (self.snapshots.load_full(), self.directory.clone());
        let (theirs, can_release) = (self.ledger.look().await, self.shared.is_some());
        let taking = beside(move || taking::next(fleet, &directory, &running, theirs, can_release)).await?;
        let offered = self.ledger.offer(&taking.accepted).await;
        let telling = if matches!(offered, Offered::Unknown) { Telling::Offer } else { Telling::Done };
        let Taking { snapshot, accepted, forced, .. } = beside(move || taking.agree(offered)).await?;
        let outcome = if forced.is_some() { Outcome::Forced } else { Outcome::Taken };
        self.install(snapshot, forced);
        self.ledger.keep(accepted, telling).await;
        Ok(outcome)
    }

    fn install(&self, mut snapshot: Snapshot, forced: Option<Forced>) {
        tell_of_force(forced.as_ref());
        let running = self.snapshots.load();
        if snapshot.fleet.limits.max_tenants != running.fleet.limits.max_tenants {
            tracing::warn!(
                "limits.max_tenants is taken at the next start: the table of tenants keeps its size"
            );
        }
        if let Some(store) = &self.shared {
            shared_limits::change_terms(store, &snapshot.fleet);
        }
        // What else a file changes at the same revision does not undo how its table came to run.
        let same_table = snapshot.fleet.revision == running.fleet.revision;
        snapshot.forced = forced.or_else(|| running.forced.clone().filter(|_| same_table));
        self.directory.install(&snapshot.cells, snapshot.fleet.health);
        self.snapshots.store(Arc::new(snapshot));
        self.overrides.refit();
    }

    /// Leaves in good order: readiness turns; after the grace nothing new is accepted; at the deadline the rest is cut.
    pub async fn shutdown(self) {
        self.drain.advance(Phase::Leaving);
        tokio::time::sleep(self.settings.drain_grace).await;
        self.end().await;
    }

    /// Leaves to a successor that serves on the same sockets already: nothing is accepted any more, on any of them, and
    /// readiness is the successor's to tell. At the deadline the rest is cut.
    pub async fn hand_over(mut self) {
        std::mem::take(&mut self.aside).hand_over().await;
        self.end().await;
    }

    async fn end(mut self) {
        self.drain.advance(Phase::Draining);
        let workers = self.workers;
        let mut ended = tokio::task::spawn_blocking(|| workers.join());
        if tokio::time::timeout(self.settings.drain_deadline, &mut ended).await.is_err() {
            let in_flight: u32 = self.directory.all().iter().map(|cell| cell.in_flight()).sum();
            let tunnels = self.metrics.tunnels.n_open();
            tracing::warn!(in_flight, tunnels, "the drain's deadline has passed: what is left is cut");
            self.drain.advance(Phase::Cut);
            let _ = ended.await;
        }
        self.drain.advance(Phase::Cut);
        if let Some(shared) = &self.shared {
            // A store that does not answer forgets this router by itself.
            let _ = tokio::time::timeout(LEAVE_WITHIN, shared.leave()).await;
        }
        self.control.shutdown().await;
        if !self.settings.refusals_every.is_zero() {
            self.refusals.tell();
        }
    }
}

/// Makes what may have to build a table: a large one takes seconds, which neither probes nor whoever else is on this thread
/// waits for.
async fn beside<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    let made = tokio::task::spawn_blocking(make).await;
    made.unwrap_or_else(|panicked| panic::resume_unwind(panicked.into_panic()))
}

/// One worker: it accepts from each of its listeners, once the gate is open. Whoever connects before waits in their queues.
async fn worker(
    listeners: Vec<TcpListener>,
    path: Arc<DataPath>,
    limits: ServeLimits,
    gate: StartGate,
    drain: Watch,
) {
    gate.opened().await;
    if let Err(error) = serve_each(listeners, limits, path, drain).await {
        tracing::error!(%error, "a worker could not serve");
    }
}

fn tell_of_force(forced: Option<&Forced>) {
    if let Some(Forced { reason, refused }) = forced {
        tracing::warn!(%reason, %refused, "a change that is refused is forced by the fleet file");
    }
}

fn readiness(drain: Drain, gate: StartGate) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    move || match drain.phase() {
        Phase::Serving if !gate.is_open() => Err("the limit store has not answered yet".to_owned()),
        Phase::Serving => Ok(()),
        _ => Err("draining".to_owned()),
    }
}
