//! One key's token bucket, in whole numbers. It knows one key, and no level, table or lock.

use super::reading::Reading;
use crate::BucketPolicy;

/// A bucket that was not full when it was last written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    // What it was written under: it is the same as no bucket once it is full by this.
    policy: BucketPolicy,
    // In 1/P tokens. Invariant: at most the policy's full level.
    level: u64,
    // Nothing flows in before this time, which lies ahead where the clock went back.
    at_us: u64,
}

impl Bucket {
    /// A bucket of `policy` that holds `level` 1/P tokens at `at_us`.
    pub(super) fn new(policy: BucketPolicy, level: u64, at_us: u64) -> Self {
        Self { policy, level: level.min(policy.full()), at_us }
    }

    /// Whether the bucket is the same as none.
    #[inline]
    pub(super) fn is_full(&self, now_us: u64) -> bool {
        let inflow = self.policy.inflow(now_us.saturating_sub(self.at_us));
        self.level.saturating_add(inflow) >= self.policy.full()
    }

    /// What the bucket is at `now_us` under `policy`, which may differ from the one it was written under: a lowered
    /// limit clamps, a raised one adds nothing.
    #[inline]
    pub(super) fn read(&self, policy: BucketPolicy, now_us: u64) -> Reading {
        if self.is_full(now_us) {
            return Reading { level: policy.full(), ahead_us: 0 };
        }
        let level = convert(self.level, self.policy.rate().period_us(), policy.rate().period_us());
        let inflow = policy.inflow(now_us.saturating_sub(self.at_us));
        let level = level.saturating_add(inflow).min(policy.full());
        Reading { level, ahead_us: self.ahead_us(policy, now_us) }
    }

    /// How far the stored time lies ahead, because the clock went back. A time in which an empty bucket would fill, or
    /// more, is not waited for: the level is kept from now on.
    fn ahead_us(&self, policy: BucketPolicy, now_us: u64) -> u64 {
        match self.at_us.saturating_sub(now_us) {
            0 => 0,
            ahead_us if ahead_us > policy.time_for(policy.full()) => 0,
            ahead_us => ahead_us,
        }
    }

    /// Takes over a reset of the stored time that `reading` saw.
    pub(super) fn keep_reset(&mut self, reading: Reading, now_us: u64) {
        self.at_us = self.at_us.min(now_us + reading.ahead_us);
    }

    /// Puts `tokens` back that were taken.
    pub(super) fn refund(&mut self, tokens: u64) {
        self.level = self.level.saturating_add(self.policy.units(tokens)).min(self.policy.full());
    }
}

/// `units` of 1/`from` tokens in 1/`to` tokens, rounded down, so that a change of policy never adds anything.
fn convert(units: u64, from: u64, to: u64) -> u64 {
    if from == to {
        return units;
    }
    let converted = u128::from(units) * u128::from(to) / u128::from(from);
    u64::try_from(converted).unwrap_or(u64::MAX)
}
