//! `cofferdam check`: whether a fleet file can be used, and what is wrong or worth a second look.

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::{Fleet, LimitMode, Plan, SHOWN_PROBLEMS};

use crate::process;

/// Check a fleet file: exit code 0 when it can be used, 2 when not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let loaded = Fleet::load(&args.fleet)?;
    for warning in loaded.warnings.iter().take(SHOWN_PROBLEMS) {
        println!("{}", warning.as_warning_in_file(&args.fleet));
    }
    match process::n_not_shown(&loaded) {
        0 => {}
        more => println!("{}: {more} more warnings", args.fleet.display()),
    }
    let fleet = &loaded.fleet;
    println!(
        "{}: fleet {} at revision {} can be used: {}, {}, {}, {}",
        args.fleet.display(),
        fleet.name,
        fleet.revision,
        counted(fleet.cells.len(), "cell", "cells"),
        counted(fleet.plans.len(), "plan", "plans"),
        counted(fleet.routes.as_slice().len(), "route", "routes"),
        counted(fleet.cell.classes.len(), "class", "classes"),
    );
    println!("{}: {}", args.fleet.display(), limits(fleet));
    Ok(ExitCode::SUCCESS)
}

/// What limits a tenant that the file does not name.
fn limits(fleet: &Fleet) -> String {
    if fleet.limits.mode == LimitMode::Off {
        return "limits.mode is off: no tenant is limited".to_owned();
    }
    let Some(plan) = fleet.tenant.unknown.map(|plan| &fleet.plans[plan.get()]) else {
        return "a tenant that tenant.plan_of does not name is refused (404)".to_owned();
    };
    let Plan { name, bucket, max_in_flight, .. } = plan;
    let named = if Plan::is_built_in(plan) { ", as in each file without plans" } else { "" };
    format!(
        "a tenant that tenant.plan_of does not name has plan {name}: {}, a burst of {}, {max_in_flight} in flight{named}",
        bucket.sustained, bucket.burst
    )
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
