//! One key's token bucket, in whole numbers. It knows one key, and no level, table or lock.

use super::reading::Reading;
use crate::BucketPolicy;

/// A bucket that was not full when it was last written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    // What it was written under: it is the same as no bucket once it is full by this.
    policy: BucketPolicy,
    // In 1/P tokens. Invariant: at most the policy's full level; below zero by as much at most, where costs were settled.
    level: i64,
    // Nothing flows in before this time, which lies ahead where the clock went back.
    at_us: u64,
}

impl Bucket {
    /// A bucket of `policy` that holds `level` 1/P tokens at `at_us`.
    pub(super) fn new(policy: BucketPolicy, level: i64, at_us: u64) -> Self {
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
        let level = level.saturating_add(inflow).min(policy.full()).max(-policy.full());
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

    /// Charges `tokens` that were spent beyond what was taken, down to one burst below zero. What has flowed in until now
    /// counts as far as it fits, and no further: the stored level alone would not say.
    pub(super) fn charge(&mut self, tokens: u64, now_us: u64) {
        let Reading { level, ahead_us } = self.read(self.policy, now_us);
        self.level = level.saturating_sub(self.policy.units(tokens)).max(-self.policy.full());
        self.at_us = now_us + ahead_us;
    }
}

/// `units` of 1/`from` tokens in 1/`to` tokens, rounded down, so that a change of policy never adds anything.
fn convert(units: i64, from: u64, to: u64) -> i64 {
    if from == to {
        return units;
    }
    let converted = (i128::from(units) * i128::from(to)).div_euclid(i128::from(from));
    i64::try_from(converted).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
}
