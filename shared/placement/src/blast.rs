//! Blast radius: the odds that tenants share cells, for equal cells in one zone. Floats are welcome: nothing here
//! decides where anybody goes, and nothing here knows a table.

use crate::spec::MAX_SHARD_SIZE;

/// What one bad tenant, or several, can reach.
#[derive(Debug, Clone, PartialEq)]
pub struct BlastRadius {
    /// How many different shards there are, `C(n, k)`: with the usual shard of two, how many pairs.
    pub pairs: u128,
    /// The probability that two tenants share exactly 0, 1, ... `k` cells: `C(k, i) C(n-k, k-i) / C(n, k)`.
    pub overlap: Vec<f64>,
    /// The probability that the bad tenants' shards together contain a victim's whole shard.
    pub fully_covered: f64,
}

/// Why there are no odds to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlastError {
    /// A shard without cells.
    #[error("shard size 0 places nobody")]
    EmptyShard,
    /// Not that many cells.
    #[error("shard size {size} exceeds {cells} cells")]
    ShardExceedsCells {
        /// The size asked for.
        size: u64,
        /// How many cells there are.
        cells: u64,
    },
    /// No table has such shards.
    #[error("shard size {0} exceeds {MAX_SHARD_SIZE}")]
    ShardTooLarge(u64),
    /// The count of shards does not fit 128 bits.
    #[error("shards of {size} out of {cells} cells are too many to count")]
    TooManyShards {
        /// The size asked for.
        size: u64,
        /// How many cells there are.
        cells: u64,
    },
}

/// The odds for `cells` equal cells in one zone, shards of `shard_size`, and `bad` bad tenants.
///
/// `fully_covered` equals `sum over j of (-1)^j C(k,j) [C(n-j,k)/C(n,k)]^bad`, the inclusion-exclusion that Kubernetes
/// API Priority and Fairness publishes, but is not computed so: its terms are near 1 and cancel down to 1e-10. Here it
/// is a chain over how many of the victim's cells are covered already. Every number in that is positive, so nothing
/// cancels, and as many digits remain as were put in.
///
/// # Errors
///
/// Refuses a shard of no cells, of more than there are, of more than [`MAX_SHARD_SIZE`], and more shards than 128
/// bits can count.
pub fn blast_radius(cells: u64, shard_size: u64, bad: u64) -> Result<BlastRadius, BlastError> {
    if shard_size == 0 {
        return Err(BlastError::EmptyShard);
    }
    if shard_size > cells {
        return Err(BlastError::ShardExceedsCells { size: shard_size, cells });
    }
    if shard_size > MAX_SHARD_SIZE as u64 {
        return Err(BlastError::ShardTooLarge(shard_size));
    }
    let too_many = BlastError::TooManyShards { size: shard_size, cells };
    let pairs = choose(cells, shard_size).ok_or(too_many)?;
    // The row of a victim of whom nothing is covered is the overlap of two tenants.
    let one = coverage_by_one(cells, shard_size, pairs).ok_or(too_many)?;
    let overlap = one[0].clone();
    // Rounding may carry a certainty past 1.
    let fully_covered = power(one, bad)[0][shard_size as usize].min(1.0);
    Ok(BlastRadius { pairs, overlap, fully_covered })
}

/// `matrix[from][to]`: how likely a step leads from `from` covered cells to `to`. Nothing is ever uncovered again, so
/// `to < from` is 0.
type Steps = Vec<Vec<f64>>;

/// What one more bad tenant does: of the `k - from` cells still uncovered it hits `to - from`, and the rest of its
/// shard falls on the other cells. Each count is at most `C(n, k)`, so what is exact stays exact.
fn coverage_by_one(n: u64, k: u64, shards: u128) -> Option<Steps> {
    let probability = |from: u64, to: u64| {
        if to < from {
            return Some(0.0);
        }
        let hits = choose(k - from, to - from)?;
        let misses = choose(n - (k - from), k - (to - from))?;
        Some(hits.checked_mul(misses)? as f64 / shards as f64)
    };
    (0..=k).map(|from| (0..=k).map(|to| probability(from, to)).collect()).collect()
}

/// `steps` taken `times` times, by repeated squaring.
fn power(mut steps: Steps, mut times: u64) -> Steps {
    let size = steps.len();
    let unit = |row| (0..size).map(|column| if row == column { 1.0 } else { 0.0 }).collect();
    let mut product: Steps = (0..size).map(unit).collect();
    while times > 0 {
        if times & 1 == 1 {
            product = multiply(&product, &steps);
        }
        times >>= 1;
        if times > 0 {
            steps = multiply(&steps, &steps);
        }
    }
    product
}

fn multiply(a: &Steps, b: &Steps) -> Steps {
    let size = a.len();
    let cell = |row: usize, column: usize| (row..=column).map(|via| a[row][via] * b[via][column]).sum();
    (0..size).map(|row| (0..size).map(|column| cell(row, column)).collect()).collect()
}

/// `C(n, k)`, exact; `None` where it, or a step on the way, exceeds 128 bits.
fn choose(n: u64, k: u64) -> Option<u128> {
    if k > n {
        return Some(0);
    }
    let k = k.min(n - k);
    // After step i the product is C(n - k + i, i), so each division leaves no rest.
    (1..=k).try_fold(1_u128, |product, i| Some(product.checked_mul(u128::from(n - k + i))? / u128::from(i)))
}

#[cfg(test)]
mod tests;
