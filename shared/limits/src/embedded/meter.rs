//! How fast a key has been: nothing to remember, a bucket, or a debt that is shared. A reading is a meter brought to the
//! present and to the policy at hand; only spending writes one back.

use std::time::Duration;

use super::bucket::Bucket;
use super::debt::Debt;
use super::reading::Reading;
use crate::{BucketPolicy, BucketStanding};

/// What a key remembers of its tokens.
#[derive(Default)]
pub(super) enum Meter {
    /// Nothing: a full bucket.
    #[default]
    Full,
    /// One tenant's bucket, or the fleet's.
    Own(Bucket),
    /// What several tenants owe together, if anything. Such a meter never becomes a bucket.
    Shared(Option<Box<Debt>>),
}

impl Meter {
    /// The meter of a tenant that owes all of `shared`.
    pub(super) fn after(shared: &Self, policy: BucketPolicy, now_us: u64) -> Self {
        match shared.read(policy, now_us).level {
            level if level < policy.full() => Self::Own(Bucket::new(policy, level, now_us)),
            _ => Self::Full,
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_full(&self, now_us: u64) -> bool {
        match self {
            Self::Full => true,
            Self::Own(bucket) => bucket.is_full(now_us),
            Self::Shared(debt) => debt.is_none(),
        }
    }

    #[inline]
    pub(super) fn read(&self, policy: BucketPolicy, now_us: u64) -> Reading {
        match self {
            Self::Full | Self::Shared(None) => Reading { level: policy.full(), ahead_us: 0 },
            Self::Own(bucket) => bucket.read(policy, now_us),
            Self::Shared(Some(debt)) => debt.at(policy, now_us).read(policy, now_us),
        }
    }

    /// The time until `cost` is covered, which `reading` does not cover and `policy` could.
    ///
    /// A denial changes nothing but a stored time that lies too far ahead because the clock went back: without that the
    /// wait would not suffice.
    pub(super) fn deny(
        &mut self,
        policy: BucketPolicy,
        reading: Reading,
        cost: u32,
        now_us: u64,
    ) -> Duration {
        match self {
            Self::Full | Self::Shared(None) => {}
            Self::Own(bucket) => bucket.keep_reset(reading, now_us),
            Self::Shared(Some(debt)) => {
                let brought = debt.at(policy, now_us);
                debt.keep_reset(&brought);
                return brought.until(policy, cost, now_us);
            }
        }
        BucketStanding::new(policy, reading.level, reading.ahead_us).until_cost(cost)
    }

    /// Takes `cost` tokens, which `reading` covers.
    #[inline]
    pub(super) fn spend(&mut self, policy: BucketPolicy, reading: Reading, cost: u32, now_us: u64) {
        match self {
            Self::Shared(debt) => {
                let mut owed =
                    debt.as_ref().map_or(Debt::none(policy, now_us), |debt| debt.at(policy, now_us));
                owed.spend(cost);
                *debt = Some(Box::new(owed));
            }
            Self::Full | Self::Own(_) => {
                let left = reading.level - policy.units(u64::from(cost));
                *self = Self::Own(Bucket::new(policy, left, now_us + reading.ahead_us));
            }
        }
    }

    /// Remembers `policy` where there is nothing to remember, so that a charge finds a bucket. Full, it is the same as none.
    #[inline]
    pub(super) fn know(&mut self, policy: BucketPolicy, now_us: u64) {
        if matches!(self, Self::Full) {
            *self = Self::Own(Bucket::new(policy, policy.full(), now_us));
        }
    }

    /// Puts `tokens` back that were taken; charges them, where they are below zero. A level that has no bucket any more has
    /// nothing to charge.
    #[cold]
    pub(super) fn correct(&mut self, tokens: i64, policy: Option<BucketPolicy>, now_us: u64) {
        let (charged, tokens) = (tokens < 0, tokens.unsigned_abs());
        match (self, policy) {
            (Self::Own(bucket), _) if charged => bucket.charge(tokens, now_us),
            (Self::Own(bucket), _) => bucket.refund(tokens),
            (Self::Shared(debt), Some(policy)) if charged => {
                let mut owed =
                    debt.as_ref().map_or(Debt::none(policy, now_us), |debt| debt.at(policy, now_us));
                owed.charge(tokens, policy);
                *debt = Some(Box::new(owed));
            }
            (Self::Shared(Some(debt)), _) if !charged => debt.refund(tokens),
            _ => {}
        }
    }
}
