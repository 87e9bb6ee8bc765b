//! A table made out of the one before, where few cells differ: byte for byte what it would be if it were made anew, for a few
//! draws in each slot instead of one for each cell.

use cofferdam_model::{CellId, CellIndex, ZoneId};

use crate::pool::Pool;
use crate::rendezvous::{Entrant, rank};
use crate::spec::{Inclusion, Slots, Spec};

/// A table that was made before, and the cells that took part in it.
pub(crate) struct OldTable<'a> {
    pub(crate) seed: u64,
    pub(crate) slots: Slots,
    pub(crate) inclusion: Inclusion,
    pub(crate) width: usize,
    /// By the index that the table knows them by; `None` for those that had no part.
    pub(crate) cells: Vec<Option<OldCell<'a>>>,
    pub(crate) table: &'a [CellIndex],
}

/// A cell that took part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldCell<'a> {
    pub(crate) id: &'a CellId,
    pub(crate) zone: &'a ZoneId,
    /// In thousandths.
    pub(crate) weight: u32,
}

/// What becomes of a cell that slots have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    /// It is as it was, or heavier, and nobody but a cell that gains can push it out.
    Stays(CellIndex),
    /// It is gone, lighter or elsewhere: whoever has it is ranked anew.
    Leaves,
}

impl OldTable<'_> {
    /// The table of `pool`, whose indexes are those of `cells`, or `None` where it has to be made anew: more than half of the
    /// cells differ, or what every draw hangs on does.
    ///
    /// A slot whose cells all stay can only lose a place to a cell that gains, so its new cells are among its old ones
    /// and those. That holds with zones: each zone sends its best cell, and no zone's best becomes worse.
    pub(crate) fn carried_over(
        &self,
        spec: &Spec,
        pool: &Pool<'_>,
        cells: &[CellId],
        width: usize,
    ) -> Option<Box<[CellIndex]>> {
        let zone_separated = self.cells.iter().flatten().any(|cell| Some(cell.zone) != self.first_zone());
        let by_weight = spec.inclusion == Inclusion::Weight && self.inclusion == Inclusion::Weight;
        let is_alike = by_weight && self.seed == spec.seed && self.slots == spec.slots && self.width >= width;
        if !is_alike || zone_separated != pool.zone_separated() {
            return None;
        }
        let entrants = pool.entrants(spec.seed);
        let now = self.now(pool);
        let gains = self.gains(pool, &entrants, cells);
        let n_leaving = now.iter().flatten().filter(|now| **now == Now::Leaves).count();
        if 2 * (n_leaving + gains.len()) > pool.n_cells() {
            return None;
        }
        // By the new index.
        let mut by_cell = vec![None; entrants.last().map_or(0, |last| last.cell.get() + 1)];
        for entrant in &entrants {
            by_cell[entrant.cell.get()] = Some(*entrant);
        }
        let n_slots = spec.slots.count();
        let mut table = Vec::with_capacity(n_slots as usize * width);
        let (mut best, mut few) = (Vec::with_capacity(width + 1), Vec::with_capacity(width + gains.len()));
        for (slot, row) in (0..n_slots).zip(self.table.chunks_exact(self.width)) {
            few.clear();
            few.extend(row[..width].iter().map_while(|cell| match now[cell.get()] {
                Some(Now::Stays(cell)) => by_cell[cell.get()],
                _ => None,
            }));
            if few.len() < width {
                rank(slot, &entrants, width, &mut best);
            } else if gains.is_empty() {
                table.extend(few.iter().map(|entrant| entrant.cell));
                continue;
            } else {
                let n_old = few.len();
                for gain in &gains {
                    // A cell that is heavier may be there already.
                    if !few[..n_old].iter().any(|old| old.cell == gain.cell) {
                        few.push(*gain);
                    }
                }
                // Ties go to the smaller id.
                few.sort_unstable_by_key(|entrant| entrant.cell);
                rank(slot, &few, width, &mut best);
            }
            table.extend(best.iter().map(|candidate| candidate.cell));
        }
        Some(table.into())
    }

    fn first_zone(&self) -> Option<&ZoneId> {
        self.cells.iter().flatten().next().map(|cell| cell.zone)
    }

    /// By the old index.
    fn now(&self, pool: &Pool<'_>) -> Vec<Option<Now>> {
        let now = |old: &OldCell<'_>| match pool.find(old.id) {
            Some((index, cell)) if cell.zone == *old.zone && cell.weight.thousandths() >= old.weight => {
                Now::Stays(index)
            }
            _ => Now::Leaves,
        };
        self.cells.iter().map(|old| old.as_ref().map(now)).collect()
    }

    /// The entrants that are new, heavier or elsewhere.
    fn gains(&self, pool: &Pool<'_>, entrants: &[Entrant], cells: &[CellId]) -> Vec<Entrant> {
        let mut old: Vec<&OldCell<'_>> = self.cells.iter().flatten().collect();
        old.sort_by_key(|cell| cell.id);
        let stays = |entrant: &Entrant| {
            let id = &cells[entrant.cell.get()];
            let before = old.binary_search_by_key(&id, |old| old.id).ok().map(|at| old[at]);
            let same_zone = |old: &OldCell<'_>| pool.find(id).is_some_and(|(_, cell)| cell.zone == *old.zone);
            before.is_some_and(|old| old.weight >= entrant.weight && same_zone(old))
        };
        entrants.iter().filter(|entrant| !stays(entrant)).copied().collect()
    }
}
