//! The cells that take part in a table, and the table that they make. It knows what a cell's state is only by who is in.

use cofferdam_model::{CellId, CellIndex, ZoneId};

use crate::brewer::{Brewer, TooHeavy};
use crate::hash;
use crate::rendezvous::{Entrant, rank};
use crate::spec::{CellSpec, Inclusion, PlacementError, Spec};

/// Some cells of a fleet, each with its place among all.
pub(crate) struct Pool<'a> {
    cells: Vec<(CellIndex, &'a CellSpec)>,
    /// Theirs, sorted.
    zones: Vec<&'a ZoneId>,
}

impl<'a> Pool<'a> {
    /// Those of `sorted`, all cells by id, that `is_in`.
    pub(crate) fn of(sorted: &[&'a CellSpec], is_in: impl Fn(&CellSpec) -> bool) -> Self {
        let cells = sorted.iter().zip(0..).map(|(cell, at)| (CellIndex(at), *cell));
        let cells: Vec<_> = cells.filter(|(_, cell)| is_in(cell)).collect();
        let mut zones: Vec<&ZoneId> = cells.iter().map(|(_, cell)| &cell.zone).collect();
        zones.sort();
        zones.dedup();
        Self { cells, zones }
    }

    /// How many cells there are.
    pub(crate) fn n_cells(&self) -> usize {
        self.cells.len()
    }

    /// In how many zones they are.
    pub(crate) fn n_zones(&self) -> usize {
        self.zones.len()
    }

    /// Whether there are several zones, so that a shard takes at most one cell of each.
    pub(crate) fn zone_separated(&self) -> bool {
        self.zones.len() > 1
    }

    /// A cell's place among all, and what it is, by its name.
    pub(crate) fn find(&self, id: &CellId) -> Option<(CellIndex, &'a CellSpec)> {
        let found = self.cells.binary_search_by_key(&id, |(_, cell)| &cell.id);
        found.ok().map(|at| self.cells[at])
    }

    /// How many cells a slot has, of `most` that one may have.
    pub(crate) fn width(&self, most: usize) -> usize {
        most.min(if self.zone_separated() { self.n_zones() } else { self.n_cells() })
    }

    /// `width` cells for each slot, slot by slot: one draw for each slot and cell, and two where inclusion is in proportion.
    pub(crate) fn table(&self, spec: &Spec, width: usize) -> Result<Box<[CellIndex]>, PlacementError> {
        let entrants = self.entrants(spec.seed);
        if spec.inclusion == Inclusion::Proportional {
            let brewer = Brewer::new(&entrants).map_err(|too_heavy| self.too_heavy(too_heavy))?;
            return Ok((0..spec.slots.count()).flat_map(|slot| brewer.pair(slot)).collect());
        }
        let mut table = Vec::with_capacity(spec.slots.count() as usize * width);
        let mut best = Vec::with_capacity(width + 1);
        for slot in 0..spec.slots.count() {
            rank(slot, &entrants, width, &mut best);
            table.extend(best.iter().map(|candidate| candidate.cell));
        }
        Ok(table.into())
    }

    fn too_heavy(&self, TooHeavy { group }: TooHeavy) -> PlacementError {
        let of_group = self.cells.iter().find(|(cell, spec)| self.group(*cell, spec) == group);
        let name = of_group.map_or_else(String::new, |(_, spec)| match self.zone_separated() {
            true => format!("zone {}", spec.zone),
            false => format!("cell {}", spec.id),
        });
        PlacementError::ProportionalWeight(name)
    }

    /// The cells as the draw sees them, in their order.
    pub(crate) fn entrants(&self, seed: u64) -> Vec<Entrant> {
        let entrant = |&(cell, spec): &(CellIndex, &CellSpec)| Entrant {
            seed: hash::cell_seed(&spec.id, seed),
            weight: spec.weight.thousandths(),
            group: self.group(cell, spec),
            cell,
        };
        self.cells.iter().map(entrant).collect()
    }

    /// What a shard has at most one cell of: the cell's zone or, in a fleet of one zone, the cell itself.
    fn group(&self, cell: CellIndex, spec: &CellSpec) -> u16 {
        let zone = &spec.zone;
        // There are at most as many zones as cells.
        if self.zone_separated() { self.zones.partition_point(|&other| other < zone) as u16 } else { cell.0 }
    }
}
