//! Weighted rendezvous: which cells a slot's draws rank first, one for each zone. It knows seeds, weights and groups, not
//! the names behind them.

use cofferdam_model::CellIndex;

use crate::hash::{draw, slot_salt};
use crate::log2::neg_log2;

/// A cell as the draw sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entrant {
    /// The hash of the cell's id under the map's seed.
    pub(crate) seed: u64,
    /// The weight in thousandths.
    pub(crate) weight: u32,
    /// At most one cell of a group is in a shard: its zone, or the cell itself where there is one zone only.
    pub(crate) group: u16,
    /// Which cell it is. Entrants come in the order of cells.
    pub(crate) cell: CellIndex,
}

/// An entrant's result in one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    log: u64,
    weight: u32,
    group: u16,
    /// Which cell it is.
    pub(crate) cell: CellIndex,
}

impl Candidate {
    /// Whether `log / weight` is strictly smaller. Logarithms have 47 bits and weights 20, so products need 128.
    fn beats(&self, other: &Self) -> bool {
        u128::from(self.log) * u128::from(other.weight) < u128::from(other.log) * u128::from(self.weight)
    }
}

/// Ranks a slot's cells: `best` becomes the `size` best cells of different groups, best first.
///
/// One pass over the entrants, who come in the order of cell ids. A later cell must beat an earlier one strictly, and
/// that is how ties go to the smaller id. A group whose cell was pushed out needs no memory: a later cell of it must
/// beat the ranked ones in any case.
pub(crate) fn rank(slot: u32, entrants: &[Entrant], size: usize, best: &mut Vec<Candidate>) {
    best.clear();
    let salt = slot_salt(slot);
    for entrant in entrants {
        let candidate = Candidate {
            log: neg_log2(draw(entrant.seed, salt)),
            weight: entrant.weight,
            group: entrant.group,
            cell: entrant.cell,
        };
        let full = best.len() == size;
        if full && best.last().is_some_and(|worst| !candidate.beats(worst)) {
            continue;
        }
        if let Some(own) = best.iter().position(|ranked| ranked.group == candidate.group) {
            if !candidate.beats(&best[own]) {
                continue;
            }
            best.remove(own);
        } else if full {
            best.pop();
        }
        let at = best.partition_point(|ranked| !candidate.beats(ranked));
        best.insert(at, candidate);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rule as it is written: sort everything, keep the first of each group, cut.
    fn by_sorting(slot: u32, entrants: &[Entrant], size: usize) -> Vec<u16> {
        let log = |e: &Entrant| u128::from(neg_log2(draw(e.seed, slot_salt(slot))));
        let mut order: Vec<usize> = (0..entrants.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&entrants[a], &entrants[b]);
            (log(a) * u128::from(b.weight)).cmp(&(log(b) * u128::from(a.weight)))
        });
        let mut groups = Vec::new();
        order.retain(|&cell| {
            let fresh = !groups.contains(&entrants[cell].group);
            groups.push(entrants[cell].group);
            fresh
        });
        order.iter().take(size).map(|&cell| cell as u16).collect()
    }

    proptest! {
        // Few seeds, so that ties are common: they must go to the smaller index.
        #[test]
        fn one_pass_ranks_as_sorting_does(
            cells in proptest::collection::vec((0..6_u64, 1..4_u32, 0..5_u16), 1..12),
            size in 1..5_usize,
            slot in 0..1000_u32,
        ) {
            let entrant = |((seed, weight, group), cell)| Entrant { seed, weight, group, cell: CellIndex(cell) };
            let entrants: Vec<Entrant> = cells.into_iter().zip(0..).map(entrant).collect();
            let mut best = Vec::new();
            rank(slot, &entrants, size, &mut best);
            let ranked: Vec<u16> = best.iter().map(|c| c.cell.0).collect();
            prop_assert_eq!(ranked, by_sorting(slot, &entrants, size));
        }
    }
}
