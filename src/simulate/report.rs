//! What a simulation says: estimates beside exact figures, as text and as JSON. It draws nothing.

use cofferdam_fleet::{Cell, Fleet};
use cofferdam_model::{CellState, ZoneId};
use cofferdam_placement::blast::blast_radius;
use cofferdam_placement::{Odds, Placement, Simulation};
use serde::Serialize;

use super::estimates::{Estimate, Estimates};

/// A share that was simulated, beside what it must be.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) simulated: Estimate,
    /// Counted over this table's slots; nothing where shards are too large for that.
    pub(super) table: Option<f64>,
    /// By the formulae, for as many equal cells in one zone.
    pub(super) equal_cells: Option<f64>,
}

/// What a cell or a zone has of the tenants: by home, and by any of their cells.
#[derive(Debug, Serialize)]
pub(super) struct Load {
    pub(super) id: String,
    /// Of a cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zone: Option<String>,
    pub(super) home: Share,
    pub(super) inclusion: Share,
}

/// A share of the tenants beside the same share of the table's slots.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    pub(super) simulated: Estimate,
    pub(super) table: f64,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) fleet: String,
    pub(super) revision: u64,
    digest: String,
    pub(super) n_cells: usize,
    pub(super) shard_size: usize,
    pub(super) tenants: u64,
    pub(super) bad: u64,
    pub(super) trials: u64,
    pub(super) seed: u64,
    /// By how many cells two tenants share.
    pub(super) overlap: Vec<Figure>,
    /// Of tenants that are not bad: those all of whose cells bad ones have too.
    pub(super) fully_covered: Figure,
    /// Those some of whose cells they have.
    pub(super) partly_covered: Figure,
    pub(super) untouched: Figure,
    pub(super) cells: Vec<Load>,
    pub(super) zones: Vec<Load>,
}

/// What bad tenants do to the others: all hit, some hit, none hit.
type Effects = [f64; 3];

impl Report {
    pub(super) fn new(
        fleet: &Fleet,
        placement: &Placement,
        simulation: Simulation,
        estimates: Estimates,
    ) -> Self {
        let Simulation { tenants, bad, seed } = simulation;
        let table = Odds::of(placement, bad).map(|odds| {
            let (all, some) = (odds.fully_covered, odds.partly_covered);
            (odds.overlap, [all, some, 1.0 - all - some])
        });
        let n_cells = fleet.cells.iter().filter(|cell| is_active(cell)).count();
        let equal = equal_cells(placement, n_cells, bad);
        let figure = |simulated, of: fn(&(Vec<f64>, Effects), usize) -> f64, at| Figure {
            simulated,
            table: table.as_ref().map(|odds| of(odds, at)),
            equal_cells: equal.as_ref().map(|odds| of(odds, at)),
        };
        let overlap = estimates
            .overlap()
            .enumerate()
            .map(|(at, estimate)| figure(estimate, |(odds, _), at| odds[at], at));
        let [fully, partly, untouched] = estimates.effects();
        let effect = |estimate, at| figure(estimate, |(_, effects), at| effects[at], at);
        let (cells, zones) = loads(fleet, placement, &estimates);
        Self {
            fleet: fleet.name.to_string(),
            revision: fleet.revision.0,
            digest: placement.digest().to_string(),
            n_cells,
            shard_size: placement.shard_size(),
            tenants,
            bad,
            trials: estimates.n_trials(),
            seed,
            overlap: overlap.collect(),
            fully_covered: effect(fully, 0),
            partly_covered: effect(partly, 1),
            untouched: effect(untouched, 2),
            cells,
            zones,
        }
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let zones = self.zones.len();
        let head = format!(
            "fleet {} at revision {}, digest {}: {} active cells in {zones} {}, shards of {}\n\
             {} trials of {} tenants that follow the table, {} of them bad; seed {}",
            self.fleet,
            self.revision,
            self.digest,
            self.n_cells,
            if zones == 1 { "zone" } else { "zones" },
            self.shard_size,
            self.trials,
            self.tenants,
            self.bad,
            self.seed,
        );
        format!(
            "{head}\n\n{}\n\n{}\n\n{}",
            self.odds(),
            loads_table("cell", &self.cells),
            loads_table("zone", &self.zones)
        )
    }

    /// What bad tenants do to the others, each with its name.
    pub(super) fn effects(&self) -> [(&'static str, &Figure); 3] {
        [
            ("all cells hit", &self.fully_covered),
            ("some cells hit", &self.partly_covered),
            ("no cell hit", &self.untouched),
        ]
    }

    fn odds(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "share of tenants",
            "simulated",
            "standard error",
            "this table",
            "equal cells, one zone",
        ]);
        let overlap = self.overlap.iter().enumerate();
        let overlap =
            overlap.map(|(shared, figure)| (format!("two tenants share {}", n_cells(shared)), figure));
        let effects = self.effects().map(|(name, figure)| (format!("other tenants: {name}"), figure));
        for (name, figure) in overlap.chain(effects) {
            let digits = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.6}"));
            table.add_row([
                name,
                digits(Some(figure.simulated.mean)),
                digits(figure.simulated.standard_error),
                digits(figure.table),
                digits(figure.equal_cells),
            ]);
        }
        table
    }
}

fn n_cells(n: usize) -> String {
    if n == 1 { "1 cell".to_owned() } else { format!("{n} cells") }
}

/// Overlap and effects by the formulae; nothing where there are too many shards to count.
fn equal_cells(placement: &Placement, n_cells: usize, bad: u64) -> Option<(Vec<f64>, Effects)> {
    let formulae = blast_radius(n_cells as u64, placement.shard_size() as u64, bad).ok()?;
    // Beyond what an exponent holds, whatever is below 1 has long come to 0.
    let untouched = formulae.overlap[0].powi(i32::try_from(bad).unwrap_or(i32::MAX));
    let covered = formulae.fully_covered;
    Some((formulae.overlap, [covered, (1.0 - untouched - covered).max(0.0), untouched]))
}

fn is_active(cell: &Cell) -> bool {
    cell.state == CellState::Active
}

/// Load by cell and by zone, of those that the table gives tenants to.
fn loads(fleet: &Fleet, placement: &Placement, estimates: &Estimates) -> (Vec<Load>, Vec<Load>) {
    let slots = placement.slots().count();
    let mut counts = vec![(0_u32, 0_u32); placement.cells().len()];
    for slot in 0..slots {
        let cells = placement.shard_of_slot(slot).cells();
        counts[cells[0].get()].0 += 1;
        cells.iter().for_each(|cell| counts[cell.get()].1 += 1);
    }
    let load = |id: &str, zone: Option<String>, (home, has), (homes, inclusion): (u32, u32)| Load {
        id: id.to_owned(),
        zone,
        home: Share { simulated: home, table: f64::from(homes) / f64::from(slots) },
        inclusion: Share { simulated: has, table: f64::from(inclusion) / f64::from(slots) },
    };
    let cells = fleet.cells.iter().zip(estimates.cells()).zip(&counts);
    let cells = cells.filter(|((cell, _), _)| is_active(cell)).map(|((cell, simulated), &counts)| {
        load(cell.id.as_str(), Some(cell.zone.to_string()), simulated, counts)
    });
    let takes_part = |zone: &ZoneId| fleet.cells.iter().any(|cell| is_active(cell) && cell.zone == *zone);
    let zones = estimates.zones().filter(|(zone, _)| takes_part(zone)).map(|(zone, simulated)| {
        let of_zone = fleet.cells.iter().zip(&counts).filter(|(cell, _)| cell.zone == *zone);
        let counts = of_zone.fold((0, 0), |sum, (_, counts)| (sum.0 + counts.0, sum.1 + counts.1));
        load(zone.as_str(), None, simulated, counts)
    });
    (cells.collect(), zones.collect())
}

fn loads_table(what: &str, loads: &[Load]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let zone = (what == "cell").then_some("zone");
    let columns = ["home of", "in single trials", "this table", "has", "in single trials", "this table"];
    table.set_header([what].into_iter().chain(zone).chain(columns));
    for load in loads {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let shown = |share: &Share| {
            let Estimate { mean, low, high, .. } = share.simulated;
            [percent(mean), format!("{} to {}", percent(low), percent(high)), percent(share.table)]
        };
        let cells = [Some(load.id.clone()), load.zone.clone()].into_iter().flatten();
        table.add_row(cells.chain(shown(&load.home)).chain(shown(&load.inclusion)));
    }
    table
}
