//! `cofferdam place`: which cells tenants have, and why.

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use anyhow::Context;
use cofferdam_fleet::Fleet;
use cofferdam_model::TenantId;
use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;

/// Show which cells tenants have
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// The tenants
    #[arg(required = true)]
    tenants: Vec<String>,

    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// How a command prints its result.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

#[derive(Debug, serde::Serialize)]
struct Row {
    tenant: String,
    slot: u32,
    shard: Vec<String>,
    reason: &'static str,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let fleet = Fleet::load(&args.fleet)?.fleet;
    let placement = Placement::build(&placement_spec(&fleet))?;
    let rows =
        args.tenants.iter().map(|text| row(text, &fleet, &placement)).collect::<anyhow::Result<Vec<_>>>()?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string(&rows)?),
        Output::Table => {
            let mut table = comfy_table::Table::new();
            table.load_style(comfy_table::presets::NOTHING).set_header(["tenant", "slot", "cells", "reason"]);
            for row in rows {
                table.add_row([
                    row.tenant,
                    row.slot.to_string(),
                    row.shard.join(", "),
                    row.reason.to_owned(),
                ]);
            }
            println!("{table}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(text: &str, fleet: &Fleet, placement: &Placement) -> anyhow::Result<Row> {
    let tenant = TenantId::parse(text.as_bytes(), &fleet.tenant.alphabet)
        .with_context(|| format!("{text:?} is not a tenant of fleet {}", fleet.name))?;
    let placed = placement.place(&tenant);
    let names = placed.shard.cells().iter().map(|cell| placement.cells()[cell.get()].to_string());
    Ok(Row {
        tenant: text.to_owned(),
        slot: placed.slot,
        shard: names.collect(),
        reason: placed.reason.as_str(),
    })
}
