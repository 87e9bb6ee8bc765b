//! `cofferdam demo`: one noisy and one poisonous tenant meet a fleet, and who is hurt is measured beside who should
//! be, computed. Everything bad is done by a client; router and cells are the product's own, as anyone starts them.
//!
//! The two sides never meet before the report. `load` and `open_loop` count what clients see and know no placement;
//! `tenants` computes from the fleet file and sees no request. `stage` brings a fleet up, `acts` directs, `verdict`
//! compares, `report` speaks.

mod acts;
mod fleet_file;
mod load;
mod open_loop;
mod processes;
mod progress;
mod report;
mod stage;
mod tenants;
mod verdict;

use std::process::ExitCode;

use anstream::println;
use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::acts::{ABOUT, ACTS, Outcome};
use self::processes::Processes;
use self::progress::Progress;
use self::stage::Stage;
use crate::place::Output;

/// The exit code of a command that was interrupted, as shells have it.
const INTERRUPTED: u8 = 130;

/// The exit code where the machine was too busy to show anything: another time it may (EX_TEMPFAIL of sysexits.h).
const TOO_BUSY: u8 = 75;

/// Watch one noisy and one poisonous tenant meet a fleet of 8 cells: about 45 s, nothing to install
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the last fleet up until Ctrl-C, and print its file and its addresses
    #[arg(long)]
    keep: bool,

    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(demonstrate(&args))
}

async fn demonstrate(args: &Args) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::listen()?;
    let mut folder =
        tempfile::Builder::new().prefix("cofferdam-demo-").tempdir().context("no temporary folder")?;
    let stage = Stage::build(folder.path())?;

    let mut outcomes = Vec::with_capacity(ACTS.len());
    let mut last = Processes::new();
    let progress = Progress::start(ACTS.len(), ABOUT);
    for (number, act) in ACTS.iter().enumerate() {
        last.end().await?;
        last = Processes::new();
        progress.begin(number, format!("act {} of {}: {}", number + 1, ACTS.len(), act.describe()));
        let outcome = tokio::select! {
            outcome = act.perform(&stage, &mut last) => outcome?,
            () = interrupts.next() => return interrupted(last).await,
        };
        outcomes.push(outcome);
    }
    drop(progress);

    folder.disable_cleanup(args.keep);
    let done = tell(args, &stage, &outcomes)?;
    if args.keep {
        interrupts.next().await;
    }
    last.end().await?;
    Ok(done)
}

async fn interrupted(processes: Processes) -> anyhow::Result<ExitCode> {
    processes.end().await?;
    Ok(ExitCode::from(INTERRUPTED))
}

/// Prints what came out, and makes the exit code of it.
#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
fn tell(args: &Args, stage: &Stage, outcomes: &[Outcome]) -> anyhow::Result<ExitCode> {
    let kept = outcomes.last().map(|outcome| outcome.layout).filter(|_| args.keep);
    // How this command was called works again, wherever the executable is.
    let command = std::env::args().next().unwrap_or_else(|| "cofferdam".to_owned());
    let next = report::next_steps(&command, stage, kept, outcomes);
    let (faults, voids) = (report::faults(outcomes), report::voids(outcomes));
    match args.output {
        Output::Json => {
            println!("{}", report::json(outcomes)?);
            if args.keep {
                eprintln!("{next}");
            }
        }
        // A table of what starved processes did would look like one of what layouts do.
        Output::Table if !voids.is_empty() => println!("{next}"),
        Output::Table => println!(
            "{}\n{}\n\n{}\n{next}",
            report::INTRODUCTION,
            report::table(outcomes),
            report::explanation(outcomes)
        ),
    }
    for fault in if voids.is_empty() { &faults } else { &voids } {
        eprintln!("cofferdam: {fault}");
    }
    if !voids.is_empty() {
        return Ok(ExitCode::from(TOO_BUSY));
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ctrl-C, and the polite request of a supervisor.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
