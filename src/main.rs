//! The one command, `cofferdam`: each subcommand is a thin file over the crates that do the work.

mod advise;
mod agent;
mod asked;
mod backend;
mod blast;
mod blast_radius;
mod cell;
mod check;
mod demo;
mod drill;
mod explain;
mod lasting;
mod limits;
mod moved;
mod not_asked;
mod pairs;
mod place;
mod placed;
mod plan;
mod probe;
mod process;
mod rollout;
mod router;
mod runtime;
mod simulate;
mod size;
mod sockets;
mod tenant_list;
mod watched;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A cell router: shuffle-sharded placement, bulkheads and fleet-wide limits in front of multi-tenant backends.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Router(Box<router::Args>),
    Agent(agent::Args),
    Backend(backend::Args),
    Cell(cell::Args),
    Check(check::Args),
    Place(place::Args),
    Explain(explain::Args),
    Blast(blast::Args),
    Plan(plan::Args),
    Pairs(pairs::Args),
    Simulate(simulate::Args),
    Probe(probe::Args),
    BlastRadius(blast_radius::Args),
    Size(size::Args),
    Advise(advise::Args),
    Drill(drill::Args),
    Limits(limits::Args),
    Pin(placed::Pin),
    Unpin(placed::Unpin),
    Quarantine(placed::Quarantine),
    Release(placed::Release),
    Rollout(rollout::Args),
    Move(moved::Args),
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Router(args) => router::run(*args),
        Command::Agent(args) => agent::run(args),
        Command::Backend(args) => backend::run(args),
        Command::Cell(args) => cell::run(args),
        Command::Check(args) => check::run(args),
        Command::Place(args) => place::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Blast(args) => blast::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Pairs(args) => pairs::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Probe(args) => probe::run(args),
        Command::BlastRadius(args) => blast_radius::run(args),
        Command::Size(args) => size::run(&args),
        Command::Advise(args) => advise::run(args),
        Command::Drill(args) => drill::run(args),
        Command::Limits(args) => limits::run(args),
        Command::Pin(args) => placed::pin(&args),
        Command::Unpin(args) => placed::unpin(&args),
        Command::Quarantine(args) => placed::quarantine(&args),
        Command::Release(args) => placed::release(&args),
        Command::Rollout(args) => rollout::run(args),
        Command::Move(args) => moved::run(args),
        Command::Demo(args) => demo::run(args),
    };
    done.unwrap_or_else(|error| process::complain(&error))
}
