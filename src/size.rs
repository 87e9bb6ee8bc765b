//! `cofferdam size`: how many places a compartment needs, by Little's law or by Erlang's formula, and how often a given size
//! refuses.

use std::process::ExitCode;
use std::time::Duration;

use anstream::println;
use anyhow::{Context, ensure};
use cofferdam_bulkhead::{loss, places_for, size};
use cofferdam_model::Rate;

/// Compute how many places a compartment needs: peak rate x high percentile x buffer, or by the mean and a loss
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The peak rate: requests per second, or a rate such as 600/min
    #[arg(long, value_parser = rate)]
    rate: Rate,

    /// A high percentile of the healthy latency, such as 250ms: places by Little's law
    #[arg(long, value_parser = humantime::parse_duration, required_unless_present = "mean")]
    p99: Option<Duration>,

    /// Headroom as a factor, for places by Little's law
    #[arg(long, default_value_t = 1.3)]
    buffer: f64,

    /// The mean of the healthy latency: places by Erlang's formula, for arrivals at random that do not wait
    #[arg(long, value_parser = humantime::parse_duration, conflicts_with = "p99")]
    mean: Option<Duration>,

    /// The share of arrivals that may be refused, for places by Erlang's formula
    #[arg(long, default_value_t = 0.01, requires = "mean")]
    loss: f64,

    /// Print the share of arrivals that so many places refuse instead
    #[arg(long, requires = "mean", conflicts_with = "loss")]
    places: Option<u32>,
}

fn rate(text: &str) -> Result<Rate, cofferdam_model::RateError> {
    let plain = !text.contains('/');
    if plain { format!("{text}/s").parse() } else { text.parse() }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (args.p99, args.mean) {
        (Some(p99), _) => {
            ensure!((1.0..=100.0).contains(&args.buffer), "buffer {} is outside 1 to 100", args.buffer);
            let buffer_thousandths = (args.buffer * 1000.0).round() as u32;
            println!("{}", size(args.rate, p99, buffer_thousandths).context("no such compartment")?);
        }
        (None, mean) => {
            let per_second = args.rate.tokens() as f64 * 1e6 / args.rate.period_us() as f64;
            let offered = per_second * mean.unwrap_or_default().as_secs_f64();
            match args.places {
                Some(places) => println!("{:.5}", loss(places, offered)),
                None => {
                    ensure!(
                        (1e-9..1.0).contains(&args.loss),
                        "loss {} is outside 0.000000001 to 1",
                        args.loss
                    );
                    println!("{}", places_for(offered, args.loss).context("more than a million places")?);
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
