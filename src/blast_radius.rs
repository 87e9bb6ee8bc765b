//! `cofferdam blast-radius`: how far one bad tenant reaches, from the formulae.

use std::process::ExitCode;

use anstream::println;
use anyhow::Context;
use cofferdam_placement::blast::blast_radius;

use crate::place::Output;

/// Compute what tenants share when each has K of N cells, and how likely bad tenants cover a victim
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many cells the fleet has
    #[arg(long)]
    cells: u64,

    /// How many cells a tenant has
    #[arg(long, default_value_t = 2)]
    shard_size: u64,

    /// How many tenants are bad
    #[arg(long, default_value_t = 1)]
    bad: u64,

    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let blast = blast_radius(args.cells, args.shard_size, args.bad).context("no such fleet")?;
    match args.output {
        Output::Json => {
            let json = serde_json::json!({
                "pairs": blast.pairs, "overlap": blast.overlap, "fully_covered": blast.fully_covered,
            });
            println!("{json}");
        }
        Output::Table => {
            println!("{} cells, {} each: {} different shards", args.cells, args.shard_size, blast.pairs);
            for (shared, probability) in blast.overlap.iter().enumerate() {
                println!("two tenants share {shared} cells with probability {probability:.6}");
            }
            println!(
                "{} bad: all cells of a victim are covered with probability {:.6}",
                args.bad, blast.fully_covered
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
