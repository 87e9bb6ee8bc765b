//! One key's state at one level. It is plain data: whoever has it holds its lock. Permits give back without that lock.

use std::sync::atomic::{AtomicI64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cofferdam_model::{Level, Limited};

use super::meter::Meter;
use super::reading::Reading;
use super::window::Counts;
use crate::{BucketPolicy, BucketStanding, Held, LevelPolicy, Paid, Standing, Wait};

/// The state of one key.
#[derive(Default)]
pub(super) struct Key {
    meter: Meter,
    // Where the key has quotas.
    counts: Option<Box<Counts>>,
    // Invariant: every permit holds one clone, and nobody else does. Clones are made under the key's lock alone, so that
    // a check under the lock holds; they are dropped from anywhere.
    tally: Arc<Tally>,
    // Where the key's tenant was before it had a state of its own. What is in flight there counts here until it is gone.
    before: Weak<Tally>,
}

/// What permits share with their key. The number of its clones is what is in flight.
#[derive(Default)]
struct Tally {
    // Tokens that were given back, less those that were charged, since the key was last looked at.
    returned: AtomicI64,
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
        before.settle(policy.bucket, now_us);
        let counts = before.counts.clone();
        let meter = policy.bucket.map(|bucket| Meter::after(&before.meter, bucket, now_us));
        let in_flight = Arc::strong_count(&before.tally) > 1;
        let before = if in_flight { Arc::downgrade(&before.tally) } else { Weak::new() };
        Self { meter: meter.unwrap_or_default(), counts, before, ..Self::default() }
    }

    /// Whether the key is the same as none.
    pub(super) fn is_idle(&mut self, now_us: u64) -> bool {
        self.settle(None, now_us);
        let counts_nothing = self.counts.as_ref().is_none_or(|counts| counts.is_idle(now_us));
        self.in_flight() == 0 && self.meter.is_full(now_us) && counts_nothing
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

    /// Looks at whether the key would let `cost` tokens and one permit go. A cost of 0 passes whatever is left.
    #[inline]
    pub(super) fn look(&mut self, policy: &LevelPolicy, cost: u32, now_us: u64, look: &mut Look) {
        self.settle(policy.bucket, now_us);
        look.in_flight = self.in_flight();
        if policy.max_in_flight.is_some_and(|max| look.in_flight >= max) {
            look.refused = Some((Limited::Concurrency, Wait::Unknown));
        }
        if let Some(bucket) = policy.bucket {
            look.reading = self.meter.read(bucket, now_us);
            if bucket.units(u64::from(cost)) > look.reading.level && cost > 0 {
                let wait = self.meter.deny(bucket, look.reading, cost, now_us);
                look.refused = Some((Limited::Rate, Wait::Until(wait)));
            }
        }
        if !policy.windows.is_empty() && cost > 0 {
            self.look_at_quotas(policy, cost, now_us, look);
        }
    }

    /// A quota is named where it makes the request wait longer than the bucket does.
    #[inline(never)]
    fn look_at_quotas(&self, policy: &LevelPolicy, cost: u32, now_us: u64, look: &mut Look) {
        let wait = self.counts.as_ref().map_or(Duration::ZERO, |c| c.wait(&policy.windows, cost, now_us));
        let known = look.refused.map_or(Duration::ZERO, |(_, wait)| wait.strictness().1);
        if wait > known {
            look.refused = Some((Limited::Quota, Wait::Until(wait)));
        }
    }

    /// Where the key stands.
    pub(super) fn standing(&mut self, policy: &LevelPolicy, now_us: u64) -> Standing {
        let mut look = Look::default();
        self.look(policy, 0, now_us, &mut look);
        self.stand(policy, &look, now_us)
    }

    /// Where the key stands by what `look` has seen, and taken since.
    #[inline]
    pub(super) fn stand(&self, policy: &LevelPolicy, look: &Look, now_us: u64) -> Standing {
        let Reading { level, ahead_us } = look.reading;
        let mut standing = Standing {
            bucket: policy.bucket.map(|bucket| BucketStanding::new(bucket, level, ahead_us)),
            in_flight: look.in_flight,
            max_in_flight: policy.max_in_flight,
            beside: None,
        };
        if !policy.windows.is_empty() {
            self.stand_in_quotas(policy, now_us, &mut standing);
        }
        standing
    }

    #[inline(never)]
    fn stand_in_quotas(&self, policy: &LevelPolicy, now_us: u64, standing: &mut Standing) {
        let none = Counts::default();
        let counts = self.counts.as_deref().unwrap_or(&none);
        for (place, window) in standing.beside_mut().windows.iter_mut().zip(policy.windows.iter()) {
            *place = Some(counts.standing(*window, now_us));
        }
    }

    /// Takes one permit and `cost` tokens, which `look` has seen, and says what was paid. What `look` has refused is taken as
    /// far as it is there: the level is a shadow. A cost of 0 takes nothing.
    #[inline]
    pub(super) fn take(
        &mut self,
        policy: &LevelPolicy,
        look: &mut Look,
        cost: u32,
        now_us: u64,
    ) -> (Arc<dyn Held>, Paid) {
        let held = Arc::clone(&self.tally);
        look.in_flight = look.in_flight.saturating_add(1);
        let cost = if look.refused.is_some() { self.there(policy, look, cost, now_us) } else { cost };
        if let Some(bucket) = policy.bucket {
            if cost > 0 {
                self.meter.spend(bucket, look.reading, cost, now_us);
                look.reading.level -= bucket.units(u64::from(cost));
            } else {
                self.meter.know(bucket, now_us);
            }
        }
        if !policy.windows.is_empty() {
            self.take_of_quotas(policy, cost, now_us);
        }
        let paid = match policy.bucket.is_some() || !policy.windows.is_empty() {
            false => Paid::Nothing,
            // What a shadow did not have is not settled either.
            true if policy.level == Level::Route || look.refused.is_some() => Paid::Count(cost),
            true => Paid::Cost(cost),
        };
        (held, paid)
    }

    #[inline(never)]
    fn take_of_quotas(&mut self, policy: &LevelPolicy, cost: u32, now_us: u64) {
        self.counts.get_or_insert_default().take(&policy.windows, cost, now_us);
    }

    /// What there is of `cost`.
    #[cold]
    fn there(&self, policy: &LevelPolicy, look: &Look, cost: u32, now_us: u64) -> u32 {
        let level = policy.bucket.map_or(u64::MAX, |bucket| {
            BucketStanding::new(bucket, look.reading.level, look.reading.ahead_us).remaining()
        });
        let cost = cost.min(u32::try_from(level).unwrap_or(u32::MAX));
        self.counts.as_ref().map_or(cost, |counts| counts.there(&policy.windows, cost, now_us))
    }

    /// Puts back what permits have given back, and charges what they have charged.
    #[inline]
    fn settle(&mut self, policy: Option<BucketPolicy>, now_us: u64) {
        if self.tally.returned.load(Ordering::Relaxed) != 0 {
            let returned = self.tally.returned.swap(0, Ordering::Relaxed);
            self.meter.correct(returned, policy, now_us);
            if let Some(counts) = &mut self.counts {
                counts.correct(returned);
            }
        }
    }
}

impl Held for Tally {
    #[inline]
    fn release(&self, returned: i64) {
        if returned != 0 {
            self.returned.fetch_add(returned, Ordering::Relaxed);
        }
    }
}
