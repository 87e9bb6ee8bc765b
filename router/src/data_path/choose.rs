//! In which order are the shard's cells tried? What is believed down comes last, and is never left out; before it comes
//! what is so full that it is avoided. Among the rest home is first, or, where the fleet file says `balance`, whichever
//! has least to do. Where all have too little room for a class, it is shed: no cell lets it in, and one is asked for no more than
//! what stands in for the answer, where the route has a fallback. A cell that drains comes first for what belongs to it.
//! A cell that has returned lately has a growing share of what would be its own; the rest goes to the next best cell of the
//! shard, as long as that is well and has not returned itself.

use std::sync::Arc;
use std::time::Instant;

use cofferdam_fleet::Choose;
use cofferdam_model::{CellIndex, Saturation, Shard, TenantId};

use super::admit::Admitted;
use super::place::Placed;
use super::reject::{Reason, Rejection};
use crate::cells::{Cell, Losses, Whereabouts};
use crate::snapshot::Snapshot;

/// What is added to a reported saturation before cells are compared, so that little of nearly nothing decides nothing.
const SLIGHT: f32 = 0.05;

/// A request with its cells in the order in which they are tried: what forwarding demands.
#[derive(Debug)]
pub(super) struct Chosen<'v> {
    pub(super) admitted: Box<Admitted<'v>>,
    pub(super) slot: u32,
    pub(super) candidates: Candidates<'v>,
    /// Why no cell is to let it in; in a box, which keeps every other request's future small.
    pub(super) shed: Option<Box<Rejection>>,
}

/// The cells of one shard that have not been tried. It never yields one from outside the shard, nor one twice.
#[derive(Debug)]
pub(super) struct Candidates<'v> {
    shard: Shard<'v>,
    cells: &'v [Arc<Cell>],
    class: &'v str,
    choose: Choose,
    tenant: TenantId,
    /// Comes before all others for as long as it is up: a session is there.
    kept_by: Option<CellIndex>,
    /// Where the fleet file wants it: who knows whether the tenant is sent to its home cell alone.
    guard: Option<&'v Losses>,
    /// By place in the shard; a shard has at most 64 cells.
    tried: u64,
}

/// What a cell is ordered by. Smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Rank {
    down: bool,
    avoided: bool,
    load: f32,
}

/// Prepares the order; the beliefs are asked at each step, so that they are fresh.
pub(super) fn choose<'v>(placed: Placed<'v>, snapshot: &'v Snapshot) -> Chosen<'v> {
    let Placed { admitted, shard, kept_by, slot } = placed;
    let (class, now) = (admitted.identified.route.class.get(), admitted.at);
    let candidates = Candidates {
        shard,
        cells: &snapshot.cells,
        class: snapshot.fleet.cell.classes[class].name.as_str(),
        choose: snapshot.fleet.placement.choose,
        kept_by,
        tenant: admitted.identified.tenant,
        guard: snapshot.fleet.poison_guard.then_some(&*snapshot.losses),
        tried: 0,
    };
    let bound = snapshot.shed_bounds[class];
    if bound.is_none_or(|bound| !candidates.have_no_room(bound, now)) {
        return Chosen { admitted, slot, candidates, shed: None };
    }
    let detail = format!("class {} is shed while all cells of the shard are this full", candidates.class);
    Chosen { admitted, slot, candidates, shed: Some(Rejection::new(Reason::Shed, detail).into()) }
}

impl<'v> Candidates<'v> {
    /// The next cell to try.
    pub(super) fn next(&mut self, now: Instant) -> Option<CellIndex> {
        let (place, cell) = self.best(now)?;
        self.tried |= 1 << place;
        Some(cell)
    }

    /// Whether the cell is the home of whoever has these, as the request sees it: by its own shard, pinned or kept by a cell that
    /// drains.
    pub(super) fn whereabouts(&self, cell: CellIndex) -> Whereabouts {
        if self.shard.cells().first() == Some(&cell) { Whereabouts::Home } else { Whereabouts::Away }
    }

    /// Whether one that is believed up has not been tried.
    pub(super) fn has_another(&self, now: Instant) -> bool {
        self.untried(now).any(|(_, cell)| self.cell(cell).health.is_up(now))
    }

    fn best(&self, now: Instant) -> Option<(usize, CellIndex)> {
        if let Some(keeper) = self.kept_by {
            let is_keeper =
                |&(_, cell): &(usize, CellIndex)| cell == keeper && self.cell(cell).health.is_up(now);
            if let Some(first) = self.untried(now).find(is_keeper) {
                return Some(first);
            }
        }
        let first = self.first_of(now, |_| true)?;
        if self.cell(first.1).health.is_held_back(now) {
            let is_settled = |cell| self.is_well(cell, now) && !self.cell(cell).health.is_returning(now);
            return self.first_of(now, is_settled).or(Some(first));
        }
        Some(first)
    }

    /// The best of those that are considered.
    fn first_of(
        &self,
        now: Instant,
        is_considered: impl Fn(CellIndex) -> bool,
    ) -> Option<(usize, CellIndex)> {
        let considered = || self.untried(now).filter(|(_, cell)| is_considered(*cell));
        if self.choose == Choose::Primary {
            let is_well = |&(_, cell): &(usize, CellIndex)| self.is_well(cell, now);
            if let Some(first) = considered().find(is_well) {
                return Some(first);
            }
        }
        let usual = self.usual_saturation(now);
        let rank = |cell| self.rank(cell, usual, now);
        let ranked = considered().map(|(place, cell)| (rank(cell), place, cell));
        // The earlier of two equal ones stays.
        let best = ranked.reduce(|best, other| if other.0 < best.0 { other } else { best });
        best.map(|(_, place, cell)| (place, cell))
    }

    /// Of a tenant that is sent to its home cell alone, no more than that.
    fn untried(&self, now: Instant) -> impl Iterator<Item = (usize, CellIndex)> {
        let is_confined = self.guard.is_some_and(|losses| losses.is_confined(&self.tenant, now));
        let n = if is_confined { 1 } else { 64 };
        let places = self.shard.cells().iter().copied().enumerate().take(n);
        places.filter(|(place, _)| self.tried & (1 << place) == 0)
    }

    fn cell(&self, cell: CellIndex) -> &'v Cell {
        &self.cells[cell.get()]
    }

    fn is_well(&self, cell: CellIndex, now: Instant) -> bool {
        let cell = self.cell(cell);
        cell.health.is_up(now) && !cell.is_avoided(self.class, now)
    }

    /// Among those who are down nothing but their order counts: what they said of their load is of another time.
    fn rank(&self, index: CellIndex, usual: f32, now: Instant) -> Rank {
        let cell = self.cell(index);
        if !cell.health.is_up(now) {
            return Rank { down: true, avoided: false, load: 0.0 };
        }
        let room = cell.room(self.class, now);
        let saturation = room.map_or(usual, |room| room.cell.max(room.class).as_f64() as f32);
        // A report alone is old, and shows the same emptier cell to every router; requests of our own alone say nothing of
        // those of others. Their product has no unit, and whoever is ahead by either must be behind by the other.
        let load = (cell.own_load(&self.tenant, now) + 1.0) * (saturation + SLIGHT);
        Rank { down: false, avoided: room.is_some_and(|room| room.avoided), load }
    }

    /// What is taken for the saturation of a cell that says nothing: that of the others, which is neither for it nor against it.
    fn usual_saturation(&self, now: Instant) -> f32 {
        let rooms = self.shard.cells().iter().filter_map(|cell| self.cell(*cell).room(self.class, now));
        let (sum, n) =
            rooms.fold((0.0, 0), |(sum, n), room| (sum + room.cell.max(room.class).as_f64(), n + 1));
        if n == 0 { 0.0 } else { (sum / f64::from(n)) as f32 }
    }

    /// Whether all cells that are up have said that they are at least this full, and that the class has no room of its own
    /// left either: what the class alone fills is for its agent to queue or refuse. With no cell up there is nothing to know.
    fn have_no_room(&self, bound: Saturation, now: Instant) -> bool {
        let mut up = self.untried(now).filter(|(_, cell)| self.cell(*cell).health.is_up(now)).peekable();
        let is_full = |cell: CellIndex| {
            self.cell(cell).room(self.class, now).is_some_and(|room| room.cell.min(room.class) >= bound)
        };
        // One cell that is well is the common case, and is seen without a lock.
        up.peek().is_some_and(|(_, cell)| self.cell(*cell).is_avoided(self.class, now))
            && up.all(|(_, cell)| is_full(cell))
    }
}

#[cfg(test)]
mod tests;
