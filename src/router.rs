//! `cofferdam router`: flags, sockets and signals around the router crate.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use cofferdam_fleet::{Fleet, Loaded};
use cofferdam_proxy::handover::Named;
use cofferdam_proxy::serve::ServeLimits;
use cofferdam_proxy::workers;
use cofferdam_router::{Before, Endpoint, EndpointError, Listeners, Router, Settings, SharedStore};

use crate::check;
use crate::lasting;
use crate::process::{self, ProcessArgs, Signals, Told};
use crate::runtime::RuntimeArgs;
use crate::sockets::{self, ClientArgs, SocketArgs, Wanted};
use crate::watched::Watched;

/// Run a router: a changed fleet file or SIGHUP reloads it, SIGTERM drains
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// Where clients are served
    #[arg(long, env = "COFFERDAM_LISTEN", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,

    /// Where operators ask; keep it on loopback
    #[arg(long, env = "COFFERDAM_ADMIN", default_value = "127.0.0.1:7001")]
    admin: SocketAddr,

    /// Where /healthz, /readyz and /metrics are
    #[arg(long, env = "COFFERDAM_PROBE_LISTEN", default_value = "127.0.0.1:7002")]
    probe_listen: SocketAddr,

    /// How many workers serve clients; default: one for each core
    #[arg(long, env = "COFFERDAM_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// How long readiness is off before nothing new is accepted
    #[arg(long, env = "COFFERDAM_DRAIN_GRACE", default_value = "0s", value_parser = lasting::time)]
    drain_grace: Duration,

    /// How long what is in flight may still take after that
    #[arg(long, env = "COFFERDAM_DRAIN_DEADLINE", default_value = "30s", value_parser = lasting::time)]
    drain_deadline: Duration,

    /// The Redis that holds the fleet's limits: redis://, rediss://, redis+unix://, redis-sentinel:// or redis-cluster://;
    /// without one each router has limits of its own
    #[arg(long, env = "COFFERDAM_STORE", hide_env_values = true)]
    store: Option<StoreUrl>,

    /// How long a request waits for the store before this router's share decides
    #[arg(long, env = "COFFERDAM_STORE_BUDGET", default_value = "5ms", value_parser = lasting::time)]
    store_budget: Duration,

    /// A folder of this router's own, for what it has to know when it starts while the store is away
    #[arg(long, value_name = "DIR", env = "COFFERDAM_STATE")]
    state: Option<PathBuf>,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    sockets: SocketArgs,

    #[command(flatten)]
    clients: ClientArgs,

    #[command(flatten)]
    process: ProcessArgs,
}

/// Where the store is, or why the URL names none. That is told by this command and not by the parser of the command line,
/// which would show the URL, and with it a password.
#[derive(Debug, Clone)]
struct StoreUrl(Result<Endpoint, EndpointError>);

impl FromStr for StoreUrl {
    type Err = Infallible;

    fn from_str(url: &str) -> Result<Self, Infallible> {
        Ok(Self(url.parse()))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let endpoint = args.store.clone().map(|url| url.0).transpose().context("--store names no store")?;
    let file = Watched::new(&args.fleet);
    let loaded = Fleet::load(&args.fleet)?;
    let passed = sockets::passed()?;
    args.process.run(|mut signals| {
        signals.watch(file);
        serve(&args, endpoint, loaded, passed, signals)
    })
}

async fn serve(
    args: &Args,
    endpoint: Option<Endpoint>,
    loaded: Loaded,
    passed: Vec<Named>,
    mut signals: Signals,
) -> anyhow::Result<()> {
    process::warn(&loaded, &args.fleet);
    let fleet = loaded.fleet;
    let n_workers = args.workers.map_or_else(workers::default_count, usize::from);
    let (data, admin, probes) = (args.listen, Some(args.admin), args.probe_listen);
    let wanted = Wanted { role: "router", data, n_workers, admin, probes };
    let sockets = args.sockets.open(&wanted, passed).await?;
    let bound = sockets.bound()?;
    if let Some(warning) = check::trust_in_loopback(&fleet, bound.data) {
        tracing::warn!("{warning}");
    }
    let mut succession = sockets.succession;
    let listeners = Listeners { data: sockets.data, admin: sockets.admin, probes: Some(sockets.probes) };
    let settings = Settings {
        workers: NonZeroUsize::new(n_workers),
        runtime: args.runtime.flavour(),
        max_connections: args.clients.max_connections,
        max_connections_per_address: args.clients.max_connections_per_address,
        serve: args.clients.serve(ServeLimits::default()),
        body: args.clients.body(),
        refusals_every: args.clients.refusals_every,
        drain_grace: args.drain_grace,
        drain_deadline: args.drain_deadline,
        store: endpoint.map(|endpoint| SharedStore { endpoint, budget: args.store_budget }),
        state: args.state.clone(),
        admin_hosts: args.sockets.admin_host.clone(),
        ownership: sockets.ownership,
        ..Settings::default()
    };
    let (name, revision) = (fleet.name.clone(), fleet.revision);
    let before = Before::look(&fleet, &settings).await.context("--state names no folder that can be had")?;
    let router = Router::start(fleet, settings, listeners, before)?;
    router.serving().await;
    tracing::info!(
        fleet = %name,
        %revision,
        listen = %bound.data,
        admin = bound.admin.map(tracing::field::display),
        probes = %bound.probes,
        workers = n_workers,
        "router serves"
    );
    if let Err(error) = succession.serving().await {
        router.shutdown().await;
        return Err(error);
    }
    let mut told = succession.next(&mut signals, || {}).await;
    loop {
        match told {
            // Nothing waits for a large table: what is told meanwhile ends the making of it.
            Told::Reload => {
                let mut next = pin!(succession.next(&mut signals, || {}));
                told = tokio::select! {
                    biased;
                    next = &mut next => next,
                    () = reload(&router, &args.fleet) => next.await,
                };
            }
            Told::Leave => {
                tracing::info!("router drains");
                router.shutdown().await;
                return Ok(());
            }
            Told::Followed => {
                tracing::info!("router drains: a successor serves");
                router.hand_over().await;
                return Ok(());
            }
        }
    }
}

/// A file that cannot be used is shown to whoever asks the router.
async fn reload(router: &Router, path: &Path) {
    let take = async |fleet: Result<Fleet, String>| match fleet {
        Ok(fleet) => router.reload(fleet).await.map_err(|error| error.to_string()),
        Err(error) => {
            router.reload_failed(error.clone());
            Err(error)
        }
    };
    let file = path.to_owned();
    process::reload(path, process::beside(move || Fleet::load(&file)).await, take).await;
}
