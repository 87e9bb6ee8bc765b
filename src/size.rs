//! `cofferdam size`: how many places a compartment needs, by Little's law.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use cofferdam_bulkhead::size;
use cofferdam_model::Rate;

/// Compute how many places a compartment needs: peak rate x high percentile x buffer
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The peak rate: requests per second, or a rate such as 600/min
    #[arg(long, value_parser = rate)]
    rate: Rate,

    /// A high percentile of the healthy latency, such as 250ms
    #[arg(long, value_parser = humantime::parse_duration)]
    p99: Duration,

    /// Headroom as a factor
    #[arg(long, default_value_t = 1.3)]
    buffer: f64,
}

fn rate(text: &str) -> Result<Rate, cofferdam_model::RateError> {
    let plain = !text.contains('/');
    if plain { format!("{text}/s").parse() } else { text.parse() }
}

#[expect(clippy::print_stdout, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    ensure!((1.0..=100.0).contains(&args.buffer), "buffer {} is outside 1 to 100", args.buffer);
    let buffer_thousandths = (args.buffer * 1000.0).round() as u32;
    let places = size(args.rate, args.p99, buffer_thousandths).context("no such compartment")?;
    println!("{places}");
    Ok(ExitCode::SUCCESS)
}
