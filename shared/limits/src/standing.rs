//! Where a tenant stands within its limits: what an answer's RateLimit fields need, kept raw and computed when read.

use std::time::Duration;

use crate::{BucketPolicy, MAX_WINDOWS, WindowPolicy};

/// Where a level stands, after the decision that it comes with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// How fast: the bucket, where the level has one.
    pub bucket: Option<BucketStanding>,
    /// How many are in flight, this one included if it was admitted.
    pub in_flight: u32,
    /// How many may be.
    pub max_in_flight: Option<u32>,
    /// What few plans and routes have. In a box, so that the others pay nothing for it.
    pub beside: Option<Box<Beside>>,
}

/// What stands beside a tenant's bucket and permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// The level's quotas, in the order of its policy.
    pub windows: [Option<WindowStanding>; MAX_WINDOWS],
    /// The tenant's own bucket on the route of the demand.
    pub route: Option<BucketStanding>,
}

/// A bucket's level at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketStanding {
    policy: BucketPolicy,
    // Invariant: at most the policy's full level, and at least as much below zero. In 1/P tokens.
    level: i64,
    // How far the bucket's stored time lies ahead of the clock, in microseconds: nothing flows in until then.
    ahead_us: u64,
}

/// A quota at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowStanding {
    /// The quota.
    pub policy: WindowPolicy,
    /// What counts as spent, rounded up; more than the quota where a cost was settled above it.
    pub used: u64,
    /// The time until one more token is there; nothing where nothing is spent.
    pub until_one_more: Duration,
}

impl Standing {
    /// What stands beside the bucket and the permits, to be filled.
    pub fn beside_mut(&mut self) -> &mut Beside {
        self.beside.get_or_insert_default()
    }
}

impl BucketStanding {
    /// A bucket of `policy` that holds `level` 1/P tokens, and starts to fill in `ahead_us`. A level below zero is what
    /// settled costs have left.
    #[inline]
    pub fn new(policy: BucketPolicy, level: i64, ahead_us: u64) -> Self {
        Self { policy, level: level.min(policy.full()), ahead_us }
    }

    /// The policy that the level was read under.
    pub fn policy(&self) -> BucketPolicy {
        self.policy
    }

    /// Whole tokens that are left.
    pub fn remaining(&self) -> u64 {
        u64::try_from(self.level).unwrap_or(0) / self.policy.rate().period_us()
    }

    /// The time until one more whole token is there; nothing for a full bucket.
    pub fn until_one_more(&self) -> Duration {
        match self.remaining() + 1 {
            more if more > self.policy.capacity() => Duration::ZERO,
            more => self.until(self.policy.units(more)),
        }
    }

    /// The time until a cost of `cost` tokens, which is at most the capacity, would pass.
    pub fn until_cost(&self, cost: u32) -> Duration {
        self.until(self.policy.units(u64::from(cost)))
    }

    fn until(&self, units: i64) -> Duration {
        match units.saturating_sub(self.level) {
            ..=0 => Duration::ZERO,
            missing => Duration::from_micros(self.policy.time_for(missing).saturating_add(self.ahead_us)),
        }
    }
}

impl WindowStanding {
    /// Whole tokens that are left.
    pub fn remaining(&self) -> u64 {
        self.policy.limit().saturating_sub(self.used)
    }
}
