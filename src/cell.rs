//! `cofferdam cell`: an agent and the sample backend in one process, so that a whole cell can die at once.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use cofferdam_agent::Backend;
use cofferdam_proxy::listen;
use cofferdam_proxy::workers::{RuntimeFlavour, Workers};

use crate::agent::{Behind, CellArgs, Protocol};
use crate::backend::{self, Sample};
use crate::process::ProcessArgs;
use crate::sockets;

/// Run a whole cell in one process: its agent, and the sample backend behind it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cell: CellArgs,

    /// Let a request to /poison end the process
    #[arg(long)]
    allow_poison: bool,

    #[command(flatten)]
    process: ProcessArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = args.cell.watched();
    let loaded = args.cell.load()?;
    let passed = sockets::passed()?;
    args.process.run(async move |mut signals| {
        signals.watch(file);
        // Bound before the agent's own listeners, so that whoever finds the agent finds a whole cell.
        let backend = start_backend(Sample::new(args.cell.cell.as_str(), args.allow_poison))?;
        let behind = Behind { backend, protocol: Protocol::Http1, idle: None };
        args.cell.start("cell", &loaded, behind, passed).await?.until_told(&args.cell, &mut signals).await;
        Ok(())
    })
}

/// Serves the sample backend on a free loopback port and a thread of its own, for as long as the process lives: when
/// the agent has left, nobody asks it any more.
fn start_backend(sample: Sample) -> anyhow::Result<Backend> {
    let listener =
        listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).context("could not listen on loopback")?;
    let origin = format!("http://{}", listener.local_addr()?).parse()?;
    let serve = async move {
        if let Err(error) = backend::serve(listener, sample, std::future::pending()).await {
            tracing::error!(%error, "sample backend failed");
        }
    };
    // The thread needs no one to join it.
    let _ = Workers::start("backend", RuntimeFlavour::PerCore, vec![serve])?;
    Ok(origin)
}
