//! `cofferdam check`: whether a fleet file can be used, and what is wrong or worth a second look.

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::Fleet;

/// Check a fleet file: exit code 0 when it can be used, 2 when not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let loaded = Fleet::load(&args.fleet)?;
    for warning in &loaded.warnings {
        println!("{}", warning.as_warning_in_file(&args.fleet));
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
    Ok(ExitCode::SUCCESS)
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
