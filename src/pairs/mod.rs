//! `cofferdam pairs`: pins that give the largest tenants sets of cells of their own. Placement finds them; here they are
//! written as the fleet file wants them.

mod taken;

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::{print, println};
use cofferdam_fleet::Fleet;
use cofferdam_model::{CellIndex, TenantId};
use cofferdam_placement::{Given, Placement, Reason, distinct};
use cofferdam_router::placement_spec;
use serde_json::json;

use taken::Taken;

use crate::not_asked;
use crate::process::BAD_INPUT;
use crate::tenant_list::{self, ListArgs};

/// Write pins that give each tenant of a list cells that no other has, all of them at least (exit code 1 where none are left)
///
/// The file's pins are spent, and with --admin those that operators have set while routers run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    #[command(flatten)]
    list: ListArgs,

    /// A router's admin listener: what its operators have pinned is taken
    #[arg(long, value_parser = not_asked::address)]
    admin: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the list came to.
struct Pairs {
    fleet: Fleet,
    placement: Placement,
    given: Vec<Given>,
    /// Tenants of the list that are pinned or in quarantine already, each with what keeps it there.
    set_apart: Vec<(TenantId, String)>,
}

#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let fleet = Fleet::load(&args.fleet)?.fleet;
    let placement = Placement::build(&placement_spec(&fleet))?;
    let tenants = match tenant_list::read(&args.list.tenants, &fleet.tenant.alphabet) {
        Ok(tenants) => tenants,
        Err(error) => {
            eprintln!("cofferdam: {error:#}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let taken = match &args.admin {
        Some(admin) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(taken::ask(admin, &fleet, &placement))?
        }
        None => Taken::default(),
    };
    let stays = |tenant: &TenantId| match (taken.keeps(tenant), placement.place(tenant).reason) {
        (Some(of), _) => Some(format!("an operator's {of}")),
        (None, Reason::Slot) => None,
        (None, reason) => Some(reason.to_string()),
    };
    let set_apart: Vec<_> = tenants.iter().filter_map(|tenant| Some((*tenant, stays(tenant)?))).collect();
    let wanting: Vec<_> = tenants.into_iter().filter(|tenant| stays(tenant).is_none()).collect();
    let given = match distinct(&placement, &wanting, &taken.sets) {
        Ok(given) => given,
        Err(spent) => {
            eprintln!("cofferdam: {spent}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let pairs = Pairs { fleet, placement, given, set_apart };
    if args.json {
        println!("{}", pairs.json());
    } else {
        print!("{}", pairs.fragment());
    }
    for (tenant, other) in pairs.shared_pins() {
        eprintln!("cofferdam: {tenant} is pinned to the same cells as {other}, and stays so");
    }
    Ok(ExitCode::SUCCESS)
}

impl Pairs {
    /// YAML to paste.
    fn fragment(&self) -> String {
        let moved = |cells: usize| self.given.iter().filter(|given| given.gained == cells).count();
        let (kept, one) = (moved(0), moved(1));
        let mut lines = vec![format!(
            "# Fleet {} at revision {}: of {} tenants {kept} keep their cells, {one} move in one, {} in more.",
            self.fleet.name,
            self.fleet.revision,
            self.given.len(),
            self.given.len() - kept - one
        )];
        if !self.given.is_empty() {
            lines.push("placement:\n  pins:".to_owned());
        }
        for Given { tenant, shard, gained } in &self.given {
            let cells: Vec<_> = self.names(shard).map(quoted).collect();
            let had: Vec<_> = self.names(self.placement.place(tenant).shard.cells()).collect();
            let note = if *gained == 0 { String::new() } else { format!("  # had {}", had.join(", ")) };
            lines.push(format!("    {}: [{}]{note}", quoted(tenant.as_str()), cells.join(", ")));
        }
        let stays =
            |(tenant, reason): &(TenantId, String)| format!("# {tenant} stays where it is, by {reason}.");
        lines.extend(self.set_apart.iter().map(stays));
        lines.push(String::new());
        lines.join("\n")
    }

    fn json(&self) -> serde_json::Value {
        let pin = |given: &Given| {
            json!({
                "tenant": given.tenant.as_str(),
                "cells": self.names(&given.shard).collect::<Vec<_>>(),
                "gained": given.gained,
            })
        };
        json!({
            "pins": self.given.iter().map(pin).collect::<Vec<_>>(),
            "set_apart": self.set_apart.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>(),
        })
    }

    /// Tenants of the list whose pins do not set them apart, each with another one that is pinned to the same cells.
    fn shared_pins(&self) -> impl Iterator<Item = (TenantId, TenantId)> {
        let pins = &self.fleet.placement.pins;
        let same =
            |a: &[CellIndex], b: &[CellIndex]| a.len() == b.len() && a.iter().all(|cell| b.contains(cell));
        self.set_apart.iter().filter_map(move |(tenant, _)| {
            let tenant = *tenant;
            let own = pins.iter().find(|pin| pin.tenant == tenant)?;
            let other = pins.iter().find(|pin| pin.tenant != tenant && same(&pin.cells, &own.cells))?;
            Some((tenant, other.tenant))
        })
    }

    fn names(&self, cells: &[CellIndex]) -> impl Iterator<Item = &str> {
        cells.iter().map(|cell| self.placement.cells()[cell.get()].as_str())
    }
}

/// A name as YAML takes it for text, whatever it looks like: `no`, `1e3` and `-` are names too.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}
