//! What a change of the fleet moves: two tables side by side, slot by slot, so that every figure is exact. It knows no
//! rule about what may move.

use std::collections::BTreeMap;

use cofferdam_model::{CellId, CellIndex, CellState, Weight};

use crate::placement::Placement;
use crate::violations::{Violation, violations};

/// Two placements side by side. Every count is over [`slots`](Self::slots), and over shards of the usual size, with which
/// larger ones begin; pins move tenants, not slots, and do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// How many slots were compared: the larger of both tables' counts. A slot of the smaller table stands for as many
    /// of the larger one's as have its leading bits, since both are the leading bits of the same hash.
    pub slots: u32,
    /// Why tenants have no slot in common before and after, where that is so.
    pub remapped: Option<Remapped>,
    /// Slots with another set of cells.
    pub moved: u32,
    /// Slots with more than one cell that they did not have.
    pub moved_twice: u32,
    /// Slots with another home.
    pub primary_moved: u32,
    /// Cells that slots have and did not have, over all slots: what really moves.
    pub gained: u64,
    /// Cells of either fleet, sorted by id.
    pub cells: Vec<CellChange>,
    /// What shards of the new fleet owe to its zones and do not give.
    pub violations: Vec<Violation>,
}

/// Why everybody is placed anew, whatever the cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remapped {
    /// The map has another seed, so tenants have other slots. Slots of the same number are compared all the same.
    Seed,
    /// The table has another number of slots.
    Slots {
        /// How many it had.
        old: u32,
        /// How many it has now.
        new: u32,
    },
}

/// One cell before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellChange {
    /// Its name.
    pub id: CellId,
    /// What it had; `None` where it is new.
    pub old: Option<CellShare>,
    /// What it has now; `None` where it is gone.
    pub new: Option<CellShare>,
}

/// What one cell has of a table, in slots of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellShare {
    /// Slots that have it.
    pub inclusion: u32,
    /// Slots whose home it is.
    pub primary: u32,
    /// The most slots that may have it by its weight: twice its part of all places. A cell in more of them would carry
    /// more than twice what it was given for, as soon as homes fail. None for a cell that is not active.
    pub most_by_weight: u32,
}

impl CellChange {
    /// How many more slots have the cell than before; 0 where there are fewer.
    pub fn gain(&self) -> u32 {
        let inclusion = |share: Option<CellShare>| share.map_or(0, |share| share.inclusion);
        inclusion(self.new).saturating_sub(inclusion(self.old))
    }
}

impl Comparison {
    /// Compares two placements over all slots.
    pub fn new(old: &Placement, new: &Placement) -> Self {
        let slots = old.slots().count().max(new.slots().count());
        let mut comparison = Self {
            slots,
            remapped: remapped(old, new),
            moved: 0,
            moved_twice: 0,
            primary_moved: 0,
            gained: 0,
            cells: changes(shares(old, slots), shares(new, slots)),
            violations: violations(old, new),
        };
        // By the old table's indexes; a cell that is gone has none in the new one.
        let index_now: Vec<Option<CellIndex>> = old.cells().iter().map(|id| new.index_of(id)).collect();
        let mut before = Vec::with_capacity(old.shard_size());
        for slot in 0..slots {
            before.clear();
            let cells = shard(old, slot, slots).iter();
            before.extend(cells.map(|cell| index_now[cell.get()]));
            comparison.count(&before, shard(new, slot, slots));
        }
        comparison
    }

    fn count(&mut self, before: &[Option<CellIndex>], after: &[CellIndex]) {
        let gained = after.iter().filter(|cell| !before.contains(&Some(**cell))).count();
        // Both lists are distinct cells, so as many are kept as were not gained.
        let lost = before.len() - (after.len() - gained);
        self.moved += u32::from(gained + lost > 0);
        self.moved_twice += u32::from(gained > 1);
        self.primary_moved += u32::from(before[0] != Some(after[0]));
        self.gained += gained as u64;
    }

    /// What the change must cost: what cells gain in slots, over all cells. No table moves less.
    pub fn must_gain(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.gain())).sum()
    }

    /// A count of slots as a share of all.
    pub fn share(&self, slots: u32) -> f64 {
        f64::from(slots) / f64::from(self.slots)
    }
}

/// A slot's shard, where `slots` is the table's count or a multiple of it.
fn shard(placement: &Placement, slot: u32, slots: u32) -> &[CellIndex] {
    placement.shard_of_slot(slot / (slots / placement.slots().count())).cells()
}

fn remapped(old: &Placement, new: &Placement) -> Option<Remapped> {
    let (old_slots, new_slots) = (old.slots().count(), new.slots().count());
    if !old.has_seed_of(new) {
        Some(Remapped::Seed)
    } else if old_slots != new_slots {
        Some(Remapped::Slots { old: old_slots, new: new_slots })
    } else {
        None
    }
}

/// What each cell of a table has, in `slots`.
fn shares(placement: &Placement, slots: u32) -> BTreeMap<CellId, CellShare> {
    let n_cells = placement.cells().len();
    let (mut inclusion, mut primary) = (vec![0; n_cells], vec![0; n_cells]);
    let each = slots / placement.slots().count();
    for slot in 0..placement.slots().count() {
        let cells = placement.shard_of_slot(slot).cells();
        primary[cells[0].get()] += each;
        for cell in cells {
            inclusion[cell.get()] += each;
        }
    }
    let is_active = |at: usize| placement.state_of(CellIndex(at as u16)) == CellState::Active;
    let weights = placement.weights().iter().enumerate().filter(|(at, _)| is_active(*at));
    let total: u64 = weights.map(|(_, &weight)| thousandths(weight)).sum();
    let most_by_weight = |weight: Weight| {
        // Weights have 20 bits, slots 21 and shards 7.
        let twice = 2 * thousandths(weight) * u64::from(slots) * placement.shard_size() as u64 / total;
        u32::try_from(twice).map_or(slots, |twice| twice.min(slots))
    };
    let cells = placement.cells().iter().zip(placement.weights()).enumerate();
    let share = |(at, (id, &weight)): (usize, (&CellId, _))| {
        let (inclusion, primary) = (inclusion[at], primary[at]);
        let most_by_weight = if is_active(at) { most_by_weight(weight) } else { 0 };
        (id.clone(), CellShare { inclusion, primary, most_by_weight })
    };
    cells.map(share).collect()
}

fn thousandths(weight: Weight) -> u64 {
    u64::from(weight.thousandths())
}

fn changes(old: BTreeMap<CellId, CellShare>, new: BTreeMap<CellId, CellShare>) -> Vec<CellChange> {
    let mut changes: BTreeMap<CellId, CellChange> = BTreeMap::new();
    for (id, share) in old {
        changes.insert(id.clone(), CellChange { id, old: Some(share), new: None });
    }
    for (id, share) in new {
        changes.entry(id.clone()).or_insert(CellChange { id, old: None, new: None }).new = Some(share);
    }
    changes.into_values().collect()
}
