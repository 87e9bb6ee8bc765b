//! The publish gate: which changes of the fleet are refused. It judges a comparison by integers alone, so that every
//! router says the same; what is done about a refusal is not its business.

use cofferdam_model::CellId;

use crate::comparison::{Comparison, Remapped};

/// How much more than it must a change may move, in thousandths of all slots.
pub const MARGIN: u32 = 5;

/// Why a change of the fleet is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The map's seed is another.
    #[error("the map's seed changes: every tenant is placed anew, which is a migration")]
    Seed,
    /// The table has another size.
    #[error("slots change from {old} to {new}: every tenant is placed anew, which is a migration")]
    Slots {
        /// How many there were.
        old: u32,
        /// How many there are now.
        new: u32,
    },
    /// More moves than must. Both are counted in cells that slots gain.
    #[error(
        "{gained} cells of {slots} slots move and {must} must, with a margin of 0.5 %: change cells in steps, so that \
         none gives and gains at once"
    )]
    Movement {
        /// How many cells slots gain.
        gained: u64,
        /// How many they must gain.
        must: u64,
        /// How many slots there are.
        slots: u32,
    },
    /// A cell is in more shards than it may be.
    #[error("cell {cell} would be in {inclusion} of {slots} slots, and {most} are the most {by}")]
    Inclusion {
        /// Which cell.
        cell: CellId,
        /// How many slots would have it.
        inclusion: u32,
        /// How many there are.
        slots: u32,
        /// How many may have it.
        most: u32,
        /// What says so.
        by: Bound,
    },
}

/// What bounds a cell's inclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The fleet file's own word, for every cell.
    File,
    /// Twice the cell's part of the weight, and the margin.
    Weight,
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File => "by max_inclusion",
            Self::Weight => "by its weight",
        })
    }
}

/// Judges a change. `max_inclusion` is the most slots that one cell may be in, of the comparison's; the new table has to
/// keep to it. Without one, a cell may not *gain* slots beyond twice its part of the weight and the margin: what was
/// accepted before does not stand in the way of what has nothing to do with it.
pub fn judge(comparison: &Comparison, max_inclusion: Option<u32>) -> Vec<Refusal> {
    let mut refused = Vec::new();
    let (slots, gained, must) = (comparison.slots, comparison.gained, comparison.must_gain());
    // At most 2^20 slots.
    let margin = slots * MARGIN / 1000;
    match comparison.remapped {
        Some(Remapped::Seed) => refused.push(Refusal::Seed),
        Some(Remapped::Slots { old, new }) => refused.push(Refusal::Slots { old, new }),
        None if gained - must > u64::from(margin) => {
            refused.push(Refusal::Movement { gained, must, slots });
        }
        None => {}
    }
    for cell in &comparison.cells {
        let Some(share) = cell.new else { continue };
        let (most, by) = match max_inclusion {
            Some(most) => (most, Bound::File),
            None if cell.gain() > 0 => (share.most_by_weight + margin, Bound::Weight),
            None => continue,
        };
        if share.inclusion > most {
            let (cell, inclusion) = (cell.id.clone(), share.inclusion);
            refused.push(Refusal::Inclusion { cell, inclusion, slots, most, by });
        }
    }
    refused
}
