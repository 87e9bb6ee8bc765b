//! A change of the table that is let loose slot by slot: in which order, and what a slot has until it is its turn. It
//! knows no time: how many have had theirs is for its user to say.

use cofferdam_model::{CellIndex, CellState, Shard};

use crate::hash::slot_salt;
use crate::placement::Placement;

/// Slots whose cells change, each with its turn and with what it has until then.
#[derive(Debug)]
pub struct Release {
    /// Changed slots by number, each with its turn, from 0.
    turns: Box<[(u32, u32)]>,
    /// `width` cells for each of them, by the new placement's indexes.
    old: Box<[CellIndex]>,
    width: usize,
}

impl Release {
    /// What changes from `old` to `new`, in an order that is a hash of the slot, so that everybody finds the same. `None`
    /// where nothing changes, and where tenants have no slot in common before and after: then it cannot be slot by slot.
    ///
    /// A slot waits for its turn only where all its old cells are still there to serve it, active or draining. Shards that
    /// grow or shrink by a plan's word are not meant: the cells that both have decide.
    pub fn new(old: &Placement, new: &Placement) -> Option<Self> {
        if old.slots() != new.slots() || !old.has_seed_of(new) {
            return None;
        }
        let serves = |cell: CellIndex| matches!(new.state_of(cell), CellState::Active | CellState::Draining);
        let index_now: Vec<Option<CellIndex>> =
            old.cells().iter().map(|id| new.index_of(id).filter(|cell| serves(*cell))).collect();
        let width = old.width().min(new.width());
        let (mut slots, mut rows) = (Vec::new(), Vec::new());
        let mut row = Vec::with_capacity(width);
        for slot in 0..new.slots().count() {
            row.clear();
            let before = &old.largest_shard_of_slot(slot).cells()[..width];
            row.extend(before.iter().map_while(|cell| index_now[cell.get()]));
            if row.len() == width && row != new.largest_shard_of_slot(slot).cells()[..width] {
                slots.push(slot);
                rows.extend_from_slice(&row);
            }
        }
        if slots.is_empty() {
            return None;
        }
        let mut order: Vec<usize> = (0..slots.len()).collect();
        order.sort_by_key(|at| (slot_salt(slots[*at]), slots[*at]));
        let mut turns: Vec<(u32, u32)> = slots.into_iter().map(|slot| (slot, 0)).collect();
        // At most 2^20 slots.
        for (at, turn) in order.into_iter().zip(0..) {
            turns[at].1 = turn;
        }
        Some(Self { turns: turns.into(), old: rows.into(), width })
    }

    /// How many slots change. Whose cells are gone already change at once, and do not count.
    pub fn n_slots(&self) -> u32 {
        self.turns.len() as u32
    }

    /// How many bytes it takes beside the tables: 8 for each slot that changes, and 2 for each cell that it had.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.turns) + size_of_val(&*self.old)
    }

    /// What a slot has of its old cells, at most `size`, where `n_released` slots have had their turn and it has not.
    pub fn before(&self, slot: u32, size: usize, n_released: u32) -> Option<Shard<'_>> {
        let at = self.turns.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        let start = at * self.width;
        (self.turns[at].1 >= n_released).then(|| Shard::new(&self.old[start..start + size.min(self.width)]))
    }
}
