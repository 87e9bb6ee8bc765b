//! `cofferdam simulate`: tenants at random on a fleet file's table, beside what must come out of it. Placement runs the
//! trials and knows the odds; here trials become estimates.

mod estimates;
mod plot;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::println;
use anyhow::{Context, ensure};
use cofferdam_fleet::Fleet;
use cofferdam_placement::{Placement, Simulation};
use cofferdam_router::placement_spec;
use indicatif::{ProgressBar, ProgressStyle};

use estimates::Estimates;
use report::Report;

/// How often the progress bar is drawn anew.
const STEP: Duration = Duration::from_millis(100);

/// Simulate tenants: what they share, whom bad ones hurt, and how load falls on cells and zones
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// Tenants of each trial
    #[arg(long, default_value_t = 10_000)]
    tenants: u64,

    /// How many of them are bad
    #[arg(long, default_value_t = 1)]
    bad: u64,

    /// How many trials there are, each with other tenants
    #[arg(long, default_value_t = 100)]
    trials: u64,

    /// Chooses the tenants: the same ones again for the same seed
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Draw what came out to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print JSON: shares from 0 to 1
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { tenants, bad, trials, seed, .. } = args;
    ensure!(trials >= 1, "no trial tells nothing");
    ensure!(tenants >= 2 && bad < tenants, "{bad} bad ones of {tenants} tenants leave nobody to be hurt");
    let fleet = Fleet::load(&args.fleet)?.fleet;
    let placement = Placement::build(&placement_spec(&fleet))?;
    let simulation = Simulation { tenants, bad, seed };
    let estimates = estimate(&placement, &fleet, simulation, trials);
    let report = Report::new(&fleet, &placement, simulation, estimates);
    if let Some(file) = &args.svg {
        std::fs::write(file, plot::svg(&report)).with_context(|| file.display().to_string())?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{}", report.text());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the trials, behind a bar on standard error where that is a terminal. It steps within a trial too, since one may be large.
fn estimate(placement: &Placement, fleet: &Fleet, simulation: Simulation, trials: u64) -> Estimates {
    let bar = ProgressBar::new(trials.saturating_mul(simulation.tenants));
    let style = format!("[{{bar:40}}] {{percent}} % of {trials} trials, {{eta}} left");
    let style = ProgressStyle::with_template(&style).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(STEP);
    let mut estimates = Estimates::new(fleet, placement);
    for number in 0..trials {
        estimates.add(&simulation.watched_trial(placement, number, |n_more| bar.inc(n_more)));
    }
    bar.finish_and_clear();
    estimates
}
