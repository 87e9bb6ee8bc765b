//! What a limit is: rates, capacities and permits at each level, checked once. Nothing here limits anything.

use std::num::NonZeroU64;

use cofferdam_model::{Level, Rate, TenantId};

/// The most levels that one request passes. A permit has room for so many, inline.
pub const MAX_LEVELS: usize = Level::ALL.len();

/// The largest level of a bucket, in 1/P tokens: what a script's numbers, which are doubles, hold exactly.
const MAX_UNITS: u64 = 1 << 53;

/// A token bucket: how fast it fills, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BucketPolicy {
    rate: Rate,
    // Invariant: capacity x P is at most 2^53.
    capacity: NonZeroU64,
}

/// The limits of one level. A limit that is absent does not bind; what is in flight is counted all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelPolicy {
    /// Which level this is.
    pub level: Level,
    /// How fast.
    pub bucket: Option<BucketPolicy>,
    /// How many at once. 0 admits nothing.
    pub max_in_flight: Option<u32>,
}

/// The levels that a request passes: from wide to narrow, each at most once, at least one and at most [`MAX_LEVELS`].
///
/// Built once for each plan, and lent to every request of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    policies: [LevelPolicy; MAX_LEVELS],
    len: u8,
}

/// Why numbers are not a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A bucket without room for one token.
    #[error("bucket capacity 0 is not at least 1")]
    NoCapacity,
    /// The level would not fit into 53 bits.
    #[error("bucket capacity {capacity} at {rate} is not exact: capacity x {} us exceeds 2^53", rate.period_us())]
    Inexact {
        /// The capacity, in tokens.
        capacity: u64,
        /// The rate, whose period is the unit.
        rate: Rate,
    },
    /// No levels, or too many.
    #[error("{0} levels are not between 1 and {MAX_LEVELS}")]
    LevelCount(usize),
    /// A level that is there twice, or wider than the one before it.
    #[error("level {0} is out of order: levels go from wide to narrow, each at most once")]
    LevelOrder(Level),
}

/// One request's demand on the limits.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Whose request it is: the key of the tenant level. The fleet level has one key for all.
    pub tenant: &'a TenantId,
    /// What every level's bucket is charged, in tokens.
    pub cost: u32,
    /// The levels to pass.
    pub levels: &'a Levels,
}

impl BucketPolicy {
    /// A bucket of `capacity` tokens that fills at `rate`, where capacity x P is at most 2^53.
    pub fn new(rate: Rate, capacity: u64) -> Result<Self, PolicyError> {
        let tokens = NonZeroU64::new(capacity).ok_or(PolicyError::NoCapacity)?;
        match capacity.checked_mul(rate.period_us()) {
            Some(units) if units <= MAX_UNITS => Ok(Self { rate, capacity: tokens }),
            _ => Err(PolicyError::Inexact { capacity, rate }),
        }
    }

    /// How fast it fills.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How many tokens it holds: the burst.
    pub fn capacity(&self) -> u64 {
        self.capacity.get()
    }

    /// The level of a full bucket, in 1/P tokens.
    pub(crate) fn full(&self) -> u64 {
        self.capacity.get() * self.rate.period_us()
    }

    /// `tokens` in 1/P tokens; what does not fit is more than any bucket holds.
    pub(crate) fn units(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.rate.period_us())
    }

    /// Microseconds, rounded up, in which `units` flow in.
    pub(crate) fn time_for(&self, units: u64) -> u64 {
        units.div_ceil(self.rate.tokens())
    }

    /// Units that flow in within `elapsed_us`; what does not fit is more than any bucket holds.
    pub(crate) fn inflow(&self, elapsed_us: u64) -> u64 {
        elapsed_us.saturating_mul(self.rate.tokens())
    }
}

impl LevelPolicy {
    /// A level that only counts.
    pub const fn unlimited(level: Level) -> Self {
        Self { level, bucket: None, max_in_flight: None }
    }

    /// Whether `cost` tokens could ever be in this level's bucket.
    pub(crate) fn could_pass(&self, cost: u32) -> bool {
        self.bucket.is_none_or(|bucket| u64::from(cost) <= bucket.capacity())
    }
}

impl Levels {
    /// Checks that `policies` go from wide to narrow, each level at most once.
    pub fn new(policies: &[LevelPolicy]) -> Result<Self, PolicyError> {
        let (Some(&first), true) = (policies.first(), policies.len() <= MAX_LEVELS) else {
            return Err(PolicyError::LevelCount(policies.len()));
        };
        if let Some(pair) = policies.windows(2).find(|pair| pair[0].level >= pair[1].level) {
            return Err(PolicyError::LevelOrder(pair[1].level));
        }
        let mut all = [first; MAX_LEVELS];
        all[..policies.len()].copy_from_slice(policies);
        Ok(Self { policies: all, len: policies.len() as u8 })
    }

    /// The levels, wide to narrow.
    pub fn as_slice(&self) -> &[LevelPolicy] {
        &self.policies[..usize::from(self.len)]
    }

    /// The policy of `level`, where the request passes it.
    pub fn get(&self, level: Level) -> Option<&LevelPolicy> {
        self.as_slice().iter().find(|policy| policy.level == level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_would_not_be_exact_is_refused() {
        let daily = Rate::new(7, 86_400_000_000).unwrap();
        assert!(BucketPolicy::new(daily, 104_249).is_ok());
        let error = BucketPolicy::new(daily, 104_250).unwrap_err();
        assert_eq!(error, PolicyError::Inexact { capacity: 104_250, rate: daily });
        assert_eq!(BucketPolicy::new(daily, 0), Err(PolicyError::NoCapacity));
        assert!(BucketPolicy::new(daily, u64::MAX).is_err());
    }

    #[test]
    fn levels_go_from_wide_to_narrow_each_at_most_once() {
        let [fleet, tenant] = [Level::Fleet, Level::Tenant].map(LevelPolicy::unlimited);
        assert_eq!(Levels::new(&[fleet, tenant]).unwrap().as_slice(), [fleet, tenant]);
        assert_eq!(Levels::new(&[tenant]).unwrap().get(Level::Fleet), None);
        assert_eq!(Levels::new(&[]), Err(PolicyError::LevelCount(0)));
        assert_eq!(Levels::new(&[tenant, fleet]), Err(PolicyError::LevelOrder(Level::Fleet)));
        assert_eq!(Levels::new(&[tenant, tenant]), Err(PolicyError::LevelOrder(Level::Tenant)));
    }
}
