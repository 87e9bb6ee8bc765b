//! `cofferdam plan`: what a changed fleet file moves, which settings it changes, and whether routers would take it.

mod known;
mod settings;
mod side;

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::Choose;
use cofferdam_placement::{CellChange, CellShare, Comparison, Sets};
use cofferdam_router::Judged;

use known::{Known, KnownArgs};
use settings::{Change, Tenants};
use side::Side;

use crate::process::BAD_INPUT;

/// Compare two fleet files: what moves over all slots, every setting that changes and how many known tenants that touches, and
/// whether the change is refused (exit code 1)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fleet file that runs
    #[arg(long)]
    from: PathBuf,

    /// The fleet file that is to follow
    #[arg(long)]
    to: PathBuf,

    /// Print JSON: shares from 0 to 1, of the fleet that is to follow
    #[arg(long)]
    json: bool,

    /// Let a change pass that is refused, and say why; routers want `placement.force` in the file itself
    #[arg(long, value_name = "REASON", value_parser = reason)]
    force: Option<String>,

    #[command(flatten)]
    known: KnownArgs,
}

#[derive(Debug, serde::Serialize)]
struct Plan {
    moved: f64,
    moved_twice: f64,
    primary_moved: f64,
    share_both: f64,
    cells: Vec<Cell>,
    violations: Vec<String>,
    refused: Vec<String>,
    tenants: Tenants,
    changes: Vec<Change>,
}

#[derive(Debug, serde::Serialize)]
struct Cell {
    id: String,
    inclusion: f64,
    primary: f64,
}

#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (old, new) = (Side::load(&args.from)?, Side::load(&args.to)?);
    let before = old.fleet.placement.force.as_deref();
    let judged = Judged::new(&old.placement, before, &new.fleet, &new.placement);
    // Exit code 1 is the gate's.
    let known = match Known::gather(&args.known, &old.fleet, &new.fleet) {
        Ok(known) => known,
        Err(error) => {
            eprintln!("cofferdam: {error:#}");
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let tenants = Tenants::of(&known, &old, &new);
    let changes = settings::changes(&known, &old, &new);
    if args.json {
        println!("{}", serde_json::to_string(&plan(&judged, &new.sets, tenants, changes))?);
    } else {
        println!("{}\n", summary(&judged.comparison, &tenants, &old, &new));
        println!("{}\n", cells(&judged.comparison, new.fleet.placement.choose, &old, &new));
        println!("{}", settings::table(&changes, &tenants));
    }
    if let Some(warning) = warning(&old, &new) {
        eprintln!("cofferdam: {warning}");
    }
    let force = args.force.as_deref().or(judged.force.as_deref());
    for refusal in &judged.refused.0 {
        eprintln!("cofferdam: refused: {refusal}");
    }
    match force {
        _ if judged.refused.0.is_empty() => Ok(ExitCode::SUCCESS),
        Some(reason) => {
            eprintln!("cofferdam: passes by force: {}", reason.trim());
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(ExitCode::FAILURE),
    }
}

/// Words that say something.
fn reason(text: &str) -> Result<String, &'static str> {
    let reason = text.trim();
    if reason.is_empty() { Err("a reason says why") } else { Ok(reason.to_owned()) }
}

/// Why routers would not take the new file whatever it moves: no part of the plan, since the file may not be done yet.
fn warning(old: &Side, new: &Side) -> Option<String> {
    let (name, before) = (&new.fleet.name, &old.fleet.name);
    if name != before {
        return Some(format!("fleet {name} is not {before}: no router takes it"));
    }
    let (revision, before) = (new.fleet.revision, old.fleet.revision);
    let same_table = old.placement.digest() == new.placement.digest();
    let follows = revision > before || revision == before && same_table;
    (!follows).then(|| format!("revision {revision} does not follow {before}: no router takes it"))
}

fn plan(judged: &Judged, sets: &Sets, tenants: Tenants, changes: Vec<Change>) -> Plan {
    let comparison = &judged.comparison;
    let cell = |change: &CellChange| {
        let (id, share) = (change.id.to_string(), change.new?);
        let (inclusion, primary) = (comparison.share(share.inclusion), comparison.share(share.primary));
        Some(Cell { id, inclusion, primary })
    };
    Plan {
        moved: comparison.share(comparison.moved),
        moved_twice: comparison.share(comparison.moved_twice),
        primary_moved: comparison.share(comparison.primary_moved),
        share_both: sets.share_all(),
        cells: comparison.cells.iter().filter_map(cell).collect(),
        violations: comparison.violations.iter().map(ToString::to_string).collect(),
        refused: judged.refused.0.iter().map(ToString::to_string).collect(),
        tenants,
        changes,
    }
}

/// What the change is for the fleet as a whole.
fn summary(comparison: &Comparison, tenants: &Tenants, old: &Side, new: &Side) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let of_slots = |slots: u32| percent(comparison.share(slots));
    let must = comparison.must_gain() as f64 / f64::from(comparison.slots);
    let pairs =
        |sets: &Sets| format!("{} sets of cells, {} to {} slots each", sets.distinct, sets.fewest, sets.most);
    let zones = |side: &Side| if side.placement.zone_separated() { "kept apart" } else { "one zone only" };
    let change = |old: String, new: String| format!("{old} -> {new}");
    for (what, value) in [
        ("revision", change(old.fleet.revision.to_string(), new.fleet.revision.to_string())),
        ("slots moved", of_slots(comparison.moved)),
        ("moved in more than one cell", of_slots(comparison.moved_twice)),
        ("primary moved", of_slots(comparison.primary_moved)),
        ("tenants moved", tenants.text()),
        ("cells that slots gain", percent(comparison.gained as f64 / f64::from(comparison.slots))),
        ("cells that slots must gain", percent(must)),
        ("two tenants share all cells", change(percent(old.sets.share_all()), percent(new.sets.share_all()))),
        ("before", pairs(&old.sets)),
        ("after", pairs(&new.sets)),
        ("zones", change(zones(old).to_owned(), zones(new).to_owned())),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    for violation in &comparison.violations {
        table.add_row(["zone violation".to_owned(), violation.to_string()]);
    }
    table
}

/// What it is for each cell, those that go included.
fn cells(comparison: &Comparison, choose: Choose, old: &Side, new: &Side) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["cell", "inclusion", "primary", "load"]);
    let load = |share: CellShare, side: &Side| match choose {
        Choose::Primary => f64::from(share.primary),
        Choose::Balance => f64::from(share.inclusion) / side.placement.shard_size() as f64,
    };
    for cell in &comparison.cells {
        let shares = |of: fn(CellShare) -> u32| {
            let one = |share: Option<CellShare>| {
                share.map_or("none".to_owned(), |share| percent(comparison.share(of(share))))
            };
            format!("{} -> {}", one(cell.old), one(cell.new))
        };
        let change = match (cell.old, cell.new) {
            (Some(before), Some(after)) if load(before, old) > 0.0 => {
                format!("{:+.2} %", 100.0 * (load(after, new) / load(before, old) - 1.0))
            }
            (Some(_), Some(_)) => "had none".to_owned(),
            (None, _) => "new".to_owned(),
            (_, None) => "gone".to_owned(),
        };
        table.add_row([
            cell.id.to_string(),
            shares(|share| share.inclusion),
            shares(|share| share.primary),
            change,
        ]);
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
