//! `cofferdam check`: whether a fleet file can be used, and what is wrong or worth a second look.

use std::path::PathBuf;
use std::process::ExitCode;

use cofferdam_fleet::Fleet;

/// Check a fleet file: exit code 0 when it can be used, 2 when not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,
}

#[expect(clippy::print_stdout, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let loaded = Fleet::load(&args.fleet)?;
    for warning in &loaded.warnings {
        println!("warning: {}:{warning}", args.fleet.display());
    }
    let fleet = &loaded.fleet;
    println!(
        "{}: fleet {} at revision {} can be used: {} cells, {} plans, {} routes, {} classes",
        args.fleet.display(),
        fleet.name,
        fleet.revision,
        fleet.cells.len(),
        fleet.plans.len(),
        fleet.routes.as_slice().len(),
        fleet.cell.classes.len(),
    );
    Ok(ExitCode::SUCCESS)
}
