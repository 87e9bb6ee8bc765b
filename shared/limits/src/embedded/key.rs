//! One key's state at one level. It is plain data: whoever has it holds its lock. Permits give back without that lock.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

use cofferdam_model::Limited;

use super::meter::Meter;
use super::reading::Reading;
use crate::{BucketStanding, Held, LevelPolicy, Outcome, Standing, Wait};

/// The state of one key.
#[derive(Default)]
pub(super) struct Key {
    meter: Meter,
    // Invariant: every permit holds one clone, and nobody else does. Clones are made under the key's lock alone, so that
    // a check under the lock holds; they are dropped from anywhere.
    tally: Arc<Tally>,
    // Where the key's tenant was before it had a state of its own. What is in flight there counts here until it is gone.
    before: Weak<Tally>,
}

/// What permits share with their key. The number of its clones is what is in flight.
#[derive(Default)]
struct Tally {
    // Tokens that were given back since the key was last looked at.
    refunded: AtomicU64,
}

/// What a key has to say to one demand under one policy.
#[derive(Default)]
pub(super) struct Look {
    // Nothing to read where the policy has no bucket.
    reading: Reading,
    in_flight: u32,
    /// What the key has against the demand.
    pub(super) refused: Option<(Limited, Wait)>,
}

impl Key {
    /// A state that several tenants share.
    pub(super) fn shared() -> Self {
        Self { meter: Meter::Shared(None), ..Self::default() }
    }

    /// The state of a tenant that has shared `before` until now: it owes what was owed there, and what is in flight
    /// there counts. The caller sees to it that the tenant takes nothing more from `before`.
    pub(super) fn after(before: &mut Self, policy: &LevelPolicy, now_us: u64) -> Self {
        before.settle();
        let meter = policy.bucket.map(|bucket| Meter::after(&before.meter, bucket, now_us));
        let in_flight = Arc::strong_count(&before.tally) > 1;
        let before = if in_flight { Arc::downgrade(&before.tally) } else { Weak::new() };
        Self { meter: meter.unwrap_or_default(), before, ..Self::default() }
    }

    /// Whether the key is the same as none.
    pub(super) fn is_idle(&mut self, now_us: u64) -> bool {
        self.settle();
        self.in_flight() == 0 && self.meter.is_full(now_us)
    }

    /// What is in flight.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        // The key's own reference is not in flight; a tenant that shared no other state has no other.
        let clones = Arc::strong_count(&self.tally) - 1 + self.before.strong_count().saturating_sub(1);
        // Whoever sees that a permit is back also sees what its holder did before.
        fence(Ordering::Acquire);
        u32::try_from(clones).unwrap_or(u32::MAX)
    }

    /// Looks at whether the key would let `cost` tokens and one permit go.
    #[inline]
    pub(super) fn look(&mut self, policy: &LevelPolicy, cost: u32, now_us: u64, look: &mut Look) {
        self.settle();
        look.in_flight = self.in_flight();
        if policy.max_in_flight.is_some_and(|max| look.in_flight >= max) {
            look.refused = Some((Limited::Concurrency, Wait::Unknown));
        }
        if let Some(bucket) = policy.bucket {
            look.reading = self.meter.read(bucket, now_us);
            if bucket.units(u64::from(cost)) > look.reading.level {
                let wait = self.meter.deny(bucket, look.reading, cost, now_us);
                look.refused = Some((Limited::Rate, Wait::Until(wait)));
            }
        }
    }

    /// Where the key stands.
    pub(super) fn standing(&mut self, policy: &LevelPolicy, now_us: u64) -> Standing {
        let mut look = Look::default();
        self.look(policy, 0, now_us, &mut look);
        look.standing(policy)
    }

    /// Takes one permit and `cost` tokens, which `look` has seen, and says how many tokens that were. A cost of 0 writes
    /// nothing to the bucket.
    #[inline]
    pub(super) fn take(
        &mut self,
        policy: &LevelPolicy,
        look: &mut Look,
        cost: u32,
        now_us: u64,
    ) -> (Arc<dyn Held>, u32) {
        let held = Arc::clone(&self.tally);
        look.in_flight = look.in_flight.saturating_add(1);
        match policy.bucket {
            Some(bucket) if cost > 0 => {
                self.meter.spend(bucket, look.reading, cost, now_us);
                look.reading.level -= bucket.units(u64::from(cost));
                (held, cost)
            }
            _ => (held, 0),
        }
    }

    /// Puts back into the meter what permits have given back.
    #[inline]
    fn settle(&mut self) {
        if self.tally.refunded.load(Ordering::Relaxed) > 0 {
            self.meter.refund(self.tally.refunded.swap(0, Ordering::Relaxed));
        }
    }
}

impl Held for Tally {
    fn release(&self, tokens: u32, outcome: Outcome) {
        if outcome == Outcome::Ignored {
            self.refunded.fetch_add(u64::from(tokens), Ordering::Relaxed);
        }
    }
}

impl Look {
    /// Where the key stands, after what was taken.
    #[inline]
    pub(super) fn standing(&self, policy: &LevelPolicy) -> Standing {
        let Reading { level, ahead_us } = self.reading;
        Standing {
            bucket: policy.bucket.map(|bucket| BucketStanding::new(bucket, level, ahead_us)),
            in_flight: self.in_flight,
            max_in_flight: policy.max_in_flight,
        }
    }
}
