//! What the slots of a table say, counted, and how far a count may be from its expectation.

use std::collections::BTreeMap;

use cofferdam_model::CellId;
use cofferdam_placement::Placement;

/// Slots of the usual table, as the size of a sample.
pub(crate) const SLOTS: f64 = 65_536.0;

/// Each slot's cells by name, home first.
pub(crate) fn shards(placement: &Placement) -> impl Iterator<Item = Vec<&CellId>> {
    (0..placement.slots().count()).map(|slot| {
        placement.shard_of_slot(slot).cells().iter().map(|cell| &placement.cells()[cell.get()]).collect()
    })
}

/// How many slots have each set of cells.
pub(crate) fn sets(placement: &Placement) -> BTreeMap<Vec<&CellId>, u32> {
    let mut counts = BTreeMap::new();
    for mut shard in shards(placement) {
        shard.sort();
        *counts.entry(shard).or_insert(0) += 1;
    }
    counts
}

/// How many slots have this cell.
pub(crate) fn inclusion(placement: &Placement, cell: &CellId) -> usize {
    shards(placement).filter(|shard| shard.contains(&cell)).count()
}

/// How many slots have this cell as their home.
pub(crate) fn homes(placement: &Placement, cell: &CellId) -> usize {
    shards(placement).filter(|shard| shard[0] == cell).count()
}

/// The draws of different slots are independent, so a count over slots is binomial: its standard deviation is
/// `sqrt(N p (1 - p))`. A correct build is more than five of those off in one case of 1.7 million.
pub(crate) fn assert_share(count: usize, p: f64) {
    let sigma = (SLOTS * p * (1.0 - p)).sqrt();
    let off = (count as f64 - SLOTS * p) / sigma;
    assert!(off.abs() < 5.0, "{count} of 65536 slots is {off:.1} sigma from {p}");
}

/// What differs between two tables, in slots.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Moved {
    /// Another set of cells.
    pub(crate) changed: usize,
    /// More than one member is new.
    pub(crate) twice: usize,
    /// Another home.
    pub(crate) homes: usize,
}

pub(crate) fn moved(old: &Placement, new: &Placement) -> Moved {
    let mut moved = Moved::default();
    for (before, after) in shards(old).zip(shards(new)) {
        let gained = after.iter().filter(|cell| !before.contains(cell)).count();
        moved.changed += usize::from(gained > 0);
        moved.twice += usize::from(gained > 1);
        moved.homes += usize::from(before[0] != after[0]);
    }
    moved
}
