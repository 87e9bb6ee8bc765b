//! The meter of a key that several tenants share, perhaps under several policies. It keeps what was taken and has not
//! flowed back, instead of what is left: that is at least what any one of them owes, so none is admitted beyond its own
//! policy, whatever the others' policies are.

use std::time::Duration;

use cofferdam_model::Rate;

use super::reading::Reading;
use crate::BucketPolicy;

/// What was taken and has not flowed back at the slowest rate that was seen since nothing was owed.
#[derive(Clone, Copy)]
pub(super) struct Debt {
    slowest: Rate,
    // In 1/P tokens of the slowest rate; a change of units could exceed 64 bits.
    owed: u128,
    // Nothing flows back before this time.
    at_us: u64,
}

impl Debt {
    /// Nothing is owed.
    pub(super) fn none(policy: BucketPolicy, now_us: u64) -> Self {
        Self { slowest: policy.rate(), owed: 0, at_us: now_us }
    }

    /// What is owed at `now_us`, and flows back no faster than `policy` lets it from now on.
    pub(super) fn at(self, policy: BucketPolicy, now_us: u64) -> Self {
        let (tokens, elapsed_us) = (u128::from(self.slowest.tokens()), now_us.saturating_sub(self.at_us));
        let owed = self.owed.saturating_sub(u128::from(elapsed_us) * tokens);
        if owed == 0 {
            return Self::none(policy, now_us);
        }
        // A time in which everything would flow back, or more, is not waited for: the clock went back.
        let ahead_us = self.at_us.saturating_sub(now_us);
        let reset = u128::from(ahead_us) > owed.div_ceil(tokens);
        let at_us = if reset { now_us } else { now_us + ahead_us };
        let brought = Self { owed, at_us, ..self };
        if slower(policy.rate(), self.slowest) {
            Self { owed: brought.owed_in(policy), slowest: policy.rate(), at_us }
        } else {
            brought
        }
    }

    /// What a bucket of `policy` that owes all of this has left at `now_us`, to which this was brought by
    /// [`Debt::at`].
    pub(super) fn read(&self, policy: BucketPolicy, now_us: u64) -> Reading {
        let full = policy.full();
        // A level is never further below zero than a full one is above it: at most 2^53.
        let left = full.saturating_sub(i64::try_from(self.owed_in(policy)).unwrap_or(i64::MAX));
        Reading { level: left.max(-full), ahead_us: self.at_us.saturating_sub(now_us) }
    }

    /// The time until such a bucket would cover `cost`.
    pub(super) fn until(&self, policy: BucketPolicy, cost: u32, now_us: u64) -> Duration {
        let may_owe = policy.full().saturating_sub(policy.units(u64::from(cost)));
        let may_owe = u128::try_from(may_owe).unwrap_or(0) * u128::from(self.slowest.period_us());
        let too_much = self.owed.saturating_sub(may_owe / u128::from(policy.rate().period_us()));
        let us = too_much.div_ceil(u128::from(self.slowest.tokens()));
        let ahead_us = u128::from(self.at_us.saturating_sub(now_us));
        Duration::from_micros(u64::try_from(us + ahead_us).unwrap_or(u64::MAX))
    }

    /// Takes `cost` tokens.
    pub(super) fn spend(&mut self, cost: u32) {
        self.owed += self.units(u64::from(cost));
    }

    /// Charges `tokens` that were spent beyond what was taken, until a bucket of `policy` would be one burst below zero.
    pub(super) fn charge(&mut self, tokens: u64, policy: BucketPolicy) {
        let most = self.units(2 * policy.capacity());
        self.owed = (self.owed + self.units(tokens)).min(most.max(self.owed));
    }

    /// Puts `tokens` back that were taken.
    pub(super) fn refund(&mut self, tokens: u64) {
        self.owed = self.owed.saturating_sub(self.units(tokens));
    }

    /// Takes over a reset of the stored time that `read`, this debt brought to the present, saw.
    pub(super) fn keep_reset(&mut self, read: &Self) {
        self.at_us = self.at_us.min(read.at_us);
    }

    fn units(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.slowest.period_us())
    }

    /// What is owed in 1/P tokens of `policy`, rounded up.
    fn owed_in(&self, policy: BucketPolicy) -> u128 {
        let units = self.owed * u128::from(policy.rate().period_us());
        units.div_ceil(u128::from(self.slowest.period_us()))
    }
}

fn slower(a: Rate, b: Rate) -> bool {
    u128::from(a.tokens()) * u128::from(b.period_us()) < u128::from(b.tokens()) * u128::from(a.period_us())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rate: &str, capacity: u64) -> BucketPolicy {
        BucketPolicy::new(rate.parse().unwrap(), capacity).unwrap()
    }

    #[test]
    fn what_is_owed_flows_back_at_the_slowest_rate() {
        let (slow, fast) = (policy("5/s", 10), policy("50/s", 20));
        let mut debt = Debt::none(slow, 0);
        debt.spend(10);
        let debt = debt.at(fast, 200_000);
        assert_eq!(debt.read(fast, 200_000).level, fast.units(11));
        assert_eq!(debt.until(slow, 10, 200_000), Duration::from_micros(1_800_000));
        assert_eq!(debt.until(fast, 20, 200_000), Duration::from_micros(1_800_000));
        let back = debt.at(fast, 2_000_000);
        assert_eq!((back.owed, back.slowest), (0, fast.rate()), "nothing is left to remember");
    }

    #[test]
    fn a_clock_that_goes_back_keeps_the_debt() {
        let slow = policy("5/s", 10);
        let mut debt = Debt::none(slow, 10_000_000);
        debt.spend(10);
        assert_eq!(debt.at(slow, 9_000_000).until(slow, 1, 9_000_000), Duration::from_micros(1_200_000));
        assert_eq!(debt.at(slow, 5_000_000).until(slow, 1, 5_000_000), Duration::from_micros(200_000));
    }
}
