//! The policy of a token bucket, and the units that its level is counted in.

use std::num::NonZeroU64;

use cofferdam_model::Rate;

use super::bounds::MAX_EXACT;
use super::error::PolicyError;

/// A token bucket: how fast it fills, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BucketPolicy {
    rate: Rate,
    // Invariant: capacity x P is at most 2^53.
    capacity: NonZeroU64,
}

impl BucketPolicy {
    /// A bucket of `capacity` tokens that fills at `rate`, where capacity x P is at most 2^53.
    pub fn new(rate: Rate, capacity: u64) -> Result<Self, PolicyError> {
        let tokens = NonZeroU64::new(capacity).ok_or(PolicyError::NoCapacity)?;
        match capacity.checked_mul(rate.period_us()) {
            Some(units) if units <= MAX_EXACT => Ok(Self { rate, capacity: tokens }),
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
    pub(crate) fn full(&self) -> i64 {
        (self.capacity.get() * self.rate.period_us()) as i64
    }

    /// `tokens` in 1/P tokens; what does not fit is more than any bucket holds.
    pub(crate) fn units(&self, tokens: u64) -> i64 {
        whole(tokens.saturating_mul(self.rate.period_us()))
    }

    /// Microseconds, rounded up, in which `units` flow in.
    pub(crate) fn time_for(&self, units: i64) -> u64 {
        u64::try_from(units).unwrap_or(0).div_ceil(self.rate.tokens())
    }

    /// Units that flow in within `elapsed_us`; what does not fit is more than any bucket holds.
    pub(crate) fn inflow(&self, elapsed_us: u64) -> i64 {
        whole(elapsed_us.saturating_mul(self.rate.tokens()))
    }
}

fn whole(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
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
}
