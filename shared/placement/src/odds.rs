//! The odds of blast radius for one table as it is, whatever its zones and weights: counted over all slots, exactly.
//! [`blast`](crate::blast) has them for equal cells in one zone, from formulae. Floats are welcome: nothing here decides
//! where anybody goes.

use std::collections::HashMap;

use cofferdam_model::CellIndex;

use crate::placement::Placement;

/// The largest shard whose odds are counted: a shard of k cells has 2^k subsets.
const MAX_COUNTED: usize = 6;

/// What tenants share that follow the table and have as many cells as usual, each with a slot by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Odds {
    /// The probability that two tenants share exactly 0, 1, ... cells.
    pub overlap: Vec<f64>,
    /// The probability that the bad tenants' shards together contain a victim's whole shard.
    pub fully_covered: f64,
    /// The probability that they contain some of it, but not all.
    pub partly_covered: f64,
}

/// How many slots have all cells of a set, for each set that is part of some slot's.
struct Subsets {
    /// Looked up, and summed as whole numbers: its order decides nothing.
    slots_with: HashMap<Box<[CellIndex]>, u64>,
    slots: u32,
}

impl Odds {
    /// The odds for `bad` bad tenants; `None` where shards are of more than six cells.
    pub fn of(placement: &Placement, bad: u64) -> Option<Self> {
        let size = placement.shard_size();
        if size > MAX_COUNTED {
            return None;
        }
        let shards = counted(placement);
        let subsets = Subsets::of(&shards, placement.slots().count());
        let (mut covered, mut untouched) = (0.0, 0.0);
        for (shard, slots) in &shards {
            let share = f64::from(*slots) / f64::from(subsets.slots);
            covered += share * subsets.covered(shard, bad);
            untouched += share * power(subsets.missed(shard), bad);
        }
        // Rounding may carry what is impossible below 0.
        let fully_covered = covered.max(0.0);
        let partly_covered = (1.0 - untouched - fully_covered).max(0.0);
        Some(Self { overlap: subsets.overlap(size), fully_covered, partly_covered })
    }
}

/// The table's shards as sets, sorted, each with how many slots have it.
fn counted(placement: &Placement) -> Vec<(Vec<CellIndex>, u32)> {
    let mut shards: Vec<Vec<CellIndex>> =
        (0..placement.slots().count()).map(|slot| placement.shard_of_slot(slot).cells().to_vec()).collect();
    shards.iter_mut().for_each(|shard| shard.sort_unstable());
    shards.sort_unstable();
    // At most 2^20, the number of slots.
    shards.chunk_by(|a, b| a == b).map(|same| (same[0].clone(), same.len() as u32)).collect()
}

/// Every subset of a set, the empty one first.
fn subsets_of(shard: &[CellIndex]) -> impl Iterator<Item = Box<[CellIndex]>> {
    let has = |mask: u32, at: usize| mask & 1 << at != 0;
    (0..1_u32 << shard.len())
        .map(move |mask| (0..shard.len()).filter(|&at| has(mask, at)).map(|at| shard[at]).collect())
}

impl Subsets {
    fn of(shards: &[(Vec<CellIndex>, u32)], slots: u32) -> Self {
        let mut slots_with = HashMap::new();
        for (shard, slots) in shards {
            for subset in subsets_of(shard) {
                *slots_with.entry(subset).or_default() += u64::from(*slots);
            }
        }
        Self { slots_with, slots }
    }

    /// How likely two tenants share 0, 1, ... cells. With M(j) the sum over all sets of j cells of how likely both have
    /// all of them, which is the sum over t of C(t, j) P(t), P(t) is the alternating sum of C(j, t) M(j). Whole numbers up
    /// to the division, so that nothing cancels.
    fn overlap(&self, size: usize) -> Vec<f64> {
        let mut both = vec![0_i128; size + 1];
        for (subset, &slots) in &self.slots_with {
            both[subset.len()] += i128::from(slots).pow(2);
        }
        let all = f64::from(self.slots) * f64::from(self.slots);
        let exactly = |shared: usize| {
            let term = |j: usize| sign(j - shared) * choose(j, shared) * both[j];
            // At most 2^40, which a float holds exactly.
            (shared..=size).map(term).sum::<i128>() as f64 / all
        };
        (0..=size).map(exactly).collect()
    }

    /// How likely a tenant has none of these cells.
    fn missed(&self, cells: &[CellIndex]) -> f64 {
        let slots = subsets_of(cells).map(|subset| sign(subset.len()) * i128::from(self.slots_with[&subset]));
        slots.sum::<i128>() as f64 / f64::from(self.slots)
    }

    /// How likely `bad` tenants have all cells of a shard between them: by inclusion and exclusion over what all miss.
    fn covered(&self, shard: &[CellIndex], bad: u64) -> f64 {
        let term = |subset: Box<[CellIndex]>| sign(subset.len()) as f64 * power(self.missed(&subset), bad);
        subsets_of(shard).map(term).sum()
    }
}

fn sign(n: usize) -> i128 {
    if n.is_multiple_of(2) { 1 } else { -1 }
}

/// C(n, k), for numbers of cells in one shard.
fn choose(n: usize, k: usize) -> i128 {
    (0..k).fold(1, |product, i| product * (n - i) as i128 / (i + 1) as i128)
}

fn power(share: f64, times: u64) -> f64 {
    // Beyond what an exponent holds, whatever is below 1 has long come to 0.
    share.powi(i32::try_from(times).unwrap_or(i32::MAX))
}
