//! Pairs that have each cell in proportion to its weight, in two stages (Brewer 1963), and in whole numbers. It knows seeds, weights
//! and groups, not the names behind them.

use cofferdam_model::CellIndex;

use crate::hash::{draw, stage_salt};
use crate::log2::neg_log2;
use crate::rendezvous::Entrant;

/// Bits behind the binary point of a weight in the first stage: with 20 bits of a weight and 36 of all together, a product with
/// a logarithm of 47 has at most 127.
const FRACTION_BITS: u32 = 24;

/// The drawing of pairs out of some cells.
pub(crate) struct Brewer<'a> {
    entrants: &'a [Entrant],
    /// By entrant: its weight in the first stage.
    first: Vec<u128>,
}

/// A group has more than half of all weight: no pair could have it often enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooHeavy {
    /// Which one.
    pub(crate) group: u16,
}

impl<'a> Brewer<'a> {
    pub(crate) fn new(entrants: &'a [Entrant]) -> Result<Self, TooHeavy> {
        let n_groups = entrants.iter().map(|entrant| usize::from(entrant.group) + 1).max().unwrap_or(0);
        let mut of_group = vec![0_u64; n_groups];
        for entrant in entrants {
            of_group[usize::from(entrant.group)] += u64::from(entrant.weight);
        }
        let all: u64 = of_group.iter().sum();
        if let Some(group) = of_group.iter().position(|weight| 2 * weight > all) {
            // A group is a zone or a cell, of which there are fewer than 2^16.
            return Err(TooHeavy { group: group as u16 });
        }
        let half = of_group.iter().position(|weight| 2 * weight == all);
        let first = |entrant: &Entrant| {
            let (group, weight) = (usize::from(entrant.group), u128::from(entrant.weight));
            match half {
                // Whoever has half is in every pair: it comes first, and nobody else does.
                Some(half) if half == group => weight,
                Some(_) => 0,
                None => {
                    let (rest, room) = (all - of_group[group], all - 2 * of_group[group]);
                    ((weight * u128::from(rest)) << FRACTION_BITS) / u128::from(room)
                }
            }
        };
        let first = entrants.iter().map(first).collect();
        Ok(Self { entrants, first })
    }

    /// The pair of a slot, home first.
    pub(crate) fn pair(&self, slot: u32) -> [CellIndex; 2] {
        let one = self.best(stage_salt(slot, 0), |at| self.first[at]);
        let group = self.entrants[one].group;
        let other = self.best(stage_salt(slot, 1), |at| {
            let entrant = &self.entrants[at];
            if entrant.group == group { 0 } else { u128::from(entrant.weight) }
        });
        let pair = [self.entrants[one].cell, self.entrants[other].cell];
        // Either is home as often: so homes are in proportion as well.
        if stage_salt(slot, 2) & 1 == 0 { pair } else { [pair[1], pair[0]] }
    }

    /// The place of the smallest `-log2(u) / weight`, ties to the earlier; a weight of 0 takes no part.
    fn best(&self, salt: u64, weight: impl Fn(usize) -> u128) -> usize {
        let mut best: Option<(u128, u128, usize)> = None;
        for (at, entrant) in self.entrants.iter().enumerate() {
            let weight = weight(at);
            if weight == 0 {
                continue;
            }
            let log = u128::from(neg_log2(draw(entrant.seed, salt)));
            if best.is_none_or(|(least, its, _)| log * its < least * weight) {
                best = Some((log, weight, at));
            }
        }
        best.map_or(0, |(_, _, at)| at)
    }
}
