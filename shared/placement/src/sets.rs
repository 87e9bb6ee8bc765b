//! How a table's slots fall on sets of cells, and with that the odds that two tenants share all of theirs. Exact, and
//! knows nothing of change.

use cofferdam_model::CellIndex;

use crate::placement::Placement;

/// The sets of cells that a table has: with the usual shard of two, its pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    /// How many different ones there are.
    pub distinct: u32,
    /// Slots that have the rarest.
    pub fewest: u32,
    /// Slots that have the most frequent.
    pub most: u32,
    /// Of all pairs of slots, one with itself included, how many have the same cells.
    alike: u64,
    slots: u32,
}

impl Sets {
    /// Counts a table's sets of cells over all slots.
    pub fn of(placement: &Placement) -> Self {
        let slots = placement.slots().count();
        let mut cells: Vec<CellIndex> =
            (0..slots).flat_map(|slot| placement.shard_of_slot(slot).cells()).copied().collect();
        cells.chunks_exact_mut(placement.shard_size()).for_each(<[CellIndex]>::sort_unstable);
        let mut shards: Vec<&[CellIndex]> = cells.chunks_exact(placement.shard_size()).collect();
        shards.sort_unstable();
        let mut sets = Self { distinct: 0, fewest: slots, most: 0, alike: 0, slots };
        for same in shards.chunk_by(|a, b| a == b) {
            // At most 2^20, the number of slots.
            let n = same.len() as u32;
            sets.distinct += 1;
            sets.fewest = sets.fewest.min(n);
            sets.most = sets.most.max(n);
            sets.alike += u64::from(n).pow(2);
        }
        sets
    }

    /// The probability that two tenants without pins have the same cells, in whatever order: each has a slot by itself.
    pub fn share_all(&self) -> f64 {
        // Both are at most 2^40, which a float holds exactly.
        self.alike as f64 / (f64::from(self.slots) * f64::from(self.slots))
    }
}
