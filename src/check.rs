//! `cofferdam check`: whether a fleet file can be used, and what is wrong or worth a second look.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::{Fleet, LimitMode, Plan, SHOWN_PROBLEMS, Source};

use crate::process;

/// Check a fleet file: exit code 0 when it can be used, 2 when not
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// Where the router serves clients: beyond loopback, the default of tenant.from deserves a second look
    #[arg(long, env = "COFFERDAM_LISTEN", default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
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
    if let Some(warning) = trust_in_loopback(fleet, args.listen) {
        println!("{}: warning: {warning}", args.fleet.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The warning for a router that serves other machines and takes a tenant's name from its own machine: what ends TLS there speaks
/// for every client. `None` where the file says whom to believe, or where `listen` is loopback.
pub(crate) fn trust_in_loopback(fleet: &Fleet, listen: SocketAddr) -> Option<String> {
    let is_default = fleet.tenant.sources == [Source::default()];
    (is_default && !listen.ip().to_canonical().is_loopback()).then(|| {
        format!(
            "tenant.from is left out, so x-tenant-id is believed from loopback alone, and the router serves on {listen}: a proxy on \
             the same machine passes every client's x-tenant-id on as its own word, and clients of other machines have no tenant"
        )
    })
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
