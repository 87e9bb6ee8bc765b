//! `cofferdam agent`: the bulkheads of one cell, in front of its backend.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use cofferdam_agent::{Agent, Backend, BackendProtocol, Listeners, Running, Settings};
use cofferdam_fleet::{Fleet, FleetError, Loaded, Problem, Trusted, did_you_mean};
use cofferdam_model::CellId;
use cofferdam_proxy::handover::Named;
use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_proxy::workers;

use crate::lasting::{self, more_than_nothing};
use crate::process::{self, ProcessArgs, Signals, Told};
use crate::runtime::RuntimeArgs;
use crate::sockets::{self, ClientArgs, SocketArgs, Succession, Wanted};
use crate::watched::Watched;

/// Run the agent of one cell: its bulkheads, in front of its backend. A changed fleet file or SIGHUP reloads it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cell: CellArgs,

    /// The cell's backend: a url, or unix:/path for a Unix socket
    #[arg(long, env = "COFFERDAM_BACKEND", default_value = "http://127.0.0.1:7200")]
    backend: Backend,

    /// What the backend is spoken to in; auto: HTTP/2 for gRPC, HTTP/1.1 for everything else. With http1 a call of gRPC is
    /// refused, with http2 a request for WebSocket: 501
    #[arg(long, env = "COFFERDAM_BACKEND_PROTOCOL", value_enum, default_value = "auto")]
    backend_protocol: Protocol,

    /// How long an unused connection to the backend is kept. It must be shorter than the backend's own keep-alive, or
    /// requests meet connections that the backend closes [default: 4s, since uvicorn and Node have 5s]
    #[arg(long, env = "COFFERDAM_BACKEND_IDLE", value_parser = more_than_nothing)]
    backend_idle: Option<Duration>,

    #[command(flatten)]
    process: ProcessArgs,
}

/// Which protocol a backend is spoken to in.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Protocol {
    Auto,
    Http1,
    Http2,
}

/// Flags of every process that runs an agent.
#[derive(Debug, clap::Args)]
pub(crate) struct CellArgs {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// The cell's id in the fleet file
    #[arg(long, env = "COFFERDAM_CELL", value_parser = CellId::parse)]
    pub(crate) cell: CellId,

    /// Where requests come in
    #[arg(long, env = "COFFERDAM_LISTEN", default_value = "127.0.0.1:7100")]
    listen: SocketAddr,

    /// Where health, metrics and saturation are asked for
    #[arg(long, env = "COFFERDAM_PROBE_LISTEN", default_value = "127.0.0.1:7101")]
    probe_listen: SocketAddr,

    /// The networks of the routers, with commas; from elsewhere only the tenant is believed
    #[arg(
        long,
        env = "COFFERDAM_TRUSTED_ROUTERS",
        value_name = "CIDR,...",
        default_value = "127.0.0.0/8,::1/128"
    )]
    trusted_routers: Trusted,

    /// Worker threads; by default one for each core
    #[arg(long, env = "COFFERDAM_WORKERS")]
    workers: Option<NonZeroUsize>,

    /// How long readiness is off before nothing new is accepted
    #[arg(long, env = "COFFERDAM_DRAIN_GRACE", default_value = "1s", value_parser = lasting::time)]
    drain_grace: Duration,

    /// How long what is in flight may take after that
    #[arg(long, env = "COFFERDAM_DRAIN_DEADLINE", default_value = "30s", value_parser = lasting::time)]
    drain_deadline: Duration,

    /// Let `cofferdam drill` let faults loose here
    #[arg(long)]
    allow_drills: bool,

    /// Where drills are asked for, if they are allowed
    #[arg(long, env = "COFFERDAM_AGENT_ADMIN_LISTEN", default_value = "127.0.0.1:7102")]
    admin: SocketAddr,

    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    sockets: SocketArgs,

    #[command(flatten)]
    clients: ClientArgs,
}

/// What an agent stands in front of, and how it is spoken to.
pub(crate) struct Behind {
    pub(crate) backend: Backend,
    pub(crate) protocol: Protocol,
    /// How long an unused connection is kept, where it is not the usual time.
    pub(crate) idle: Option<Duration>,
}

/// An agent that serves, between the process that it follows and the one that follows it.
pub(crate) struct Serving {
    running: Running,
    succession: Succession,
}

impl From<Protocol> for BackendProtocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Auto => Self::Auto,
            Protocol::Http1 => Self::Http1,
            Protocol::Http2 => Self::Http2,
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = args.cell.watched();
    let loaded = args.cell.load()?;
    let passed = sockets::passed()?;
    let behind = Behind { backend: args.backend, protocol: args.backend_protocol, idle: args.backend_idle };
    args.process.run(async move |mut signals| {
        signals.watch(file);
        args.cell.start("agent", &loaded, behind, passed).await?.until_told(&args.cell, &mut signals).await;
        Ok(())
    })
}

impl CellArgs {
    /// The fleet file as it is before it is read.
    pub(crate) fn watched(&self) -> Watched {
        Watched::new(&self.fleet)
    }

    /// The fleet file.
    pub(crate) fn load(&self) -> Result<Loaded, FleetError> {
        load(&self.fleet, &self.cell)
    }

    /// Logs what is odd about the fleet file, opens the listeners and starts the agent.
    pub(crate) async fn start(
        &self,
        role: &'static str,
        loaded: &Loaded,
        behind: Behind,
        passed: Vec<Named>,
    ) -> anyhow::Result<Serving> {
        process::warn(loaded, &self.fleet);
        let fleet = &loaded.fleet;
        let n_workers = self.workers.map_or_else(workers::default_count, NonZeroUsize::get);
        let (data, probes) = (self.listen, self.probe_listen);
        let admin = self.allow_drills.then_some(self.admin);
        let wanted = Wanted { role, data, n_workers, admin, probes };
        let sockets = self.sockets.open(&wanted, passed).await?;
        let bound = sockets.bound()?;
        let (data, probes, admin) = (sockets.data, sockets.probes, sockets.admin);
        tracing::info!(
            cell = %self.cell,
            listen = %bound.data,
            admin = bound.admin.map(tracing::field::display),
            probes = %bound.probes,
            backend = %behind.backend,
            workers = n_workers,
            revision = %fleet.revision,
            "agent starts"
        );
        let mut settings = Settings {
            trusted_routers: self.trusted_routers.clone(),
            workers: NonZeroUsize::new(n_workers),
            runtime: self.runtime.flavour(),
            max_connections: self.clients.max_connections,
            max_connections_per_address: self.clients.max_connections_per_address,
            body: self.clients.body(),
            refusals_every: self.clients.refusals_every,
            drain_grace: self.drain_grace,
            drain_deadline: self.drain_deadline,
            admin_hosts: self.sockets.admin_host.clone(),
            backend_protocol: behind.protocol.into(),
            ..Settings::new(self.cell.clone(), behind.backend)
        };
        settings.upstream.idle = behind.idle.unwrap_or(settings.upstream.idle);
        settings.serve = self.clients.serve(settings.serve);
        let kept = UpstreamLimits::default().idle;
        anyhow::ensure!(
            settings.serve.idle > kept,
            "--client-idle of an agent must be more than {}, for which routers keep unused connections",
            humantime::format_duration(kept)
        );
        let running = Agent::start(fleet, settings, Listeners { data, probes: Some(probes), admin })?;
        // What is asked about readiness from now on has its answer, as the process before had.
        running.settled().await;
        let mut succession = sockets.succession;
        match succession.serving().await {
            Ok(true) => running.follow(),
            Ok(false) => {}
            Err(error) => {
                running.shutdown().await;
                return Err(error);
            }
        }
        Ok(Serving { running, succession })
    }
}

/// Reads the fleet file of a cell. One that the cell is not in is the file's fault as much as the flag's, and told in the same way.
fn load(file: &Path, cell: &CellId) -> Result<Loaded, FleetError> {
    let loaded = Fleet::load(file)?;
    if loaded.fleet.cells.iter().any(|known| known.id == *cell) {
        return Ok(loaded);
    }
    let nearest = did_you_mean(cell.as_str(), loaded.fleet.cells.iter().map(|known| known.id.as_str()));
    let message = format!("there is no cell {cell}, which --cell names{nearest}");
    let problem = Problem { line: 1, column: 1, key: "cells".to_owned(), message };
    Err(FleetError::Problems { file: file.to_owned(), problems: vec![problem], more: 0 })
}

impl Serving {
    /// Serves until the process is told to leave, and leaves. The fleet file is `args`'.
    pub(crate) async fn until_told(mut self, args: &CellArgs, signals: &mut Signals) {
        let mut told = self.succession.next(signals, || self.running.follow()).await;
        loop {
            match told {
                // Nothing waits for a large file: what is told meanwhile ends the reading of it.
                Told::Reload => {
                    let (file, cell) = (args.fleet.clone(), args.cell.clone());
                    let mut next = pin!(self.succession.next(signals, || self.running.follow()));
                    told = tokio::select! {
                        biased;
                        next = &mut next => next,
                        loaded = process::beside(move || load(&file, &cell)) => {
                            let take = async |fleet: Result<_, String>| {
                                self.running.reload(fleet?).map_err(|error| error.to_string())
                            };
                            process::reload(&args.fleet, loaded, take).await;
                            next.await
                        }
                    };
                }
                Told::Leave => return self.running.shutdown().await,
                Told::Followed => {
                    tracing::info!("leaving: a successor serves");
                    return self.running.hand_over().await;
                }
            }
        }
    }
}
