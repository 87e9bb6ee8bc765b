//! The share of a fleet's limit that one router may use by itself while the store is away. It knows no tenant's state.
//!
//! Router i of R may use floor(L/R), and one more where its rank for this tenant is below L mod R. Ranks are by rendezvous
//! hash, so that the remainders of many tenants are spread over the routers, and nobody has to agree on anything.

use std::hash::Hasher;

use cofferdam_model::{Rate, TenantId};
use parking_lot::RwLock;
use twox_hash::XxHash3_64;

use crate::{BucketPolicy, Demand, Levels, ShapePolicy, Windows};

/// Who shares the limits, as far as this router knows.
#[derive(Debug)]
pub(super) struct Sharers {
    // How many there are, as configured: before any was seen, and at least.
    configured: u32,
    own: String,
    // The live sessions that were last seen, this one aside.
    others: RwLock<Vec<String>>,
}

/// One router's place among those that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) of: u32,
}

impl Sharers {
    pub(super) fn new(configured: u32, own: String) -> Self {
        Self { configured: configured.max(1), own, others: RwLock::default() }
    }

    /// Takes over the live sessions that the store named. While it has yet to hear of some, because it lost what it knew,
    /// nobody who was there before is taken for gone: else whoever calls first would take all for its share.
    pub(super) fn saw(&self, sessions: Vec<String>, is_learning: bool) {
        let mut others = self.others.write();
        if !is_learning {
            others.clear();
        }
        for session in sessions {
            if session != self.own && !others.contains(&session) {
                others.push(session);
            }
        }
    }

    /// How many share.
    pub(super) fn count(&self) -> u32 {
        let seen = self.others.read().len() as u32 + 1;
        seen.max(self.configured)
    }

    /// This router's place for `tenant`; the fleet's own limits have no tenant.
    pub(super) fn place(&self, tenant: Option<&TenantId>) -> Place {
        let weight = |session: &str| {
            let mut hasher = XxHash3_64::with_seed(0);
            hasher.write(session.as_bytes());
            hasher.write_u8(0);
            hasher.write(tenant.map_or(b"", |tenant| tenant.as_str().as_bytes()));
            hasher.finish()
        };
        let own = weight(&self.own);
        let others = self.others.read();
        let before = others.iter().filter(|session| weight(session) < own).count() as u32;
        let of = (others.len() as u32 + 1).max(self.configured);
        // Of those that were never seen nobody knows the rank: this one is spread over what is left by its hash.
        let unseen = of - (others.len() as u32 + 1);
        let rank = if unseen == 0 { before } else { (own % u64::from(of)) as u32 };
        Place { rank, of }
    }
}

impl Place {
    /// This router's share of `limit`.
    pub(super) fn share(self, limit: u32) -> u32 {
        limit / self.of + u32::from(self.rank < limit % self.of)
    }

    /// This router's line of a shaped route: as long as ever, and slower.
    pub(super) fn shape(self, policy: ShapePolicy) -> ShapePolicy {
        let rate = policy.rate();
        let period = rate.period_us().checked_mul(u64::from(self.of));
        let slower = period.and_then(|period| Rate::new(rate.tokens(), period));
        let share = slower.and_then(|rate| ShapePolicy::new(rate, policy.depth(), policy.max_wait()).ok());
        share.unwrap_or(policy)
    }

    /// A demand's levels with this router's share of each limit. Quotas are left out: nobody knows how much of one is left.
    pub(super) fn levels(self, demand: &Demand<'_>) -> Levels {
        let mut levels = *demand.levels;
        levels.each_mut(|policy| {
            policy.bucket = policy.bucket.map(|bucket| self.bucket(bucket, demand.cost_at(policy.level)));
            policy.max_in_flight = policy.max_in_flight.map(|limit| self.share(limit));
            policy.windows = Windows::NONE;
        });
        levels
    }

    /// This router's share of a bucket, with room for `cost`. A share without room for one token would limit a tenant to
    /// nothing, so each has at least one.
    pub(super) fn bucket(self, policy: BucketPolicy, cost: u32) -> BucketPolicy {
        let (capacity, of) = (policy.capacity(), u64::from(self.of));
        let share = capacity / of + u64::from(u64::from(self.rank) < capacity % of);
        let share = share.max(u64::from(cost)).max(1);
        let rate = policy.rate();
        let slower = rate.period_us().checked_mul(of).and_then(|period| Rate::new(rate.tokens(), period));
        // What cannot be divided exactly stays whole: it is rarer than a year.
        slower.and_then(|rate| BucketPolicy::new(rate, share).ok()).unwrap_or(policy)
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    fn sharers(configured: u32, names: &[&str]) -> Vec<Sharers> {
        let all: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let one = |own: &String| {
            let sharers = Sharers::new(configured, own.clone());
            sharers.saw(all.clone(), false);
            sharers
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn the_shares_of_all_who_were_seen_are_the_limit() {
        let all = sharers(1, &["one", "two", "three"]);
        for limit in [0, 1, 2, 3, 7, 100, 1_000_000] {
            for tenant in ["acme", "bolt", "core"] {
                let tenant = TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap();
                let sum: u32 = all.iter().map(|sharer| sharer.place(Some(&tenant)).share(limit)).sum();
                assert_eq!(sum, limit);
            }
        }
    }

    #[test]
    fn nobody_is_taken_for_gone_while_the_store_learns_who_is_there() {
        let sharers = Sharers::new(1, "one".to_owned());
        let all = || vec!["one".to_owned(), "two".to_owned()];
        sharers.saw(all(), false);
        sharers.saw(vec!["one".to_owned()], true);
        assert_eq!((sharers.count(), sharers.place(None).share(100)), (2, 50));
        sharers.saw(vec!["three".to_owned()], true);
        assert_eq!(sharers.count(), 3);
        sharers.saw(all(), false);
        assert_eq!(sharers.count(), 2);
    }

    #[test]
    fn more_are_reckoned_with_than_were_seen_where_the_file_says_so() {
        let alone = Sharers::new(4, "one".to_owned());
        assert_eq!((alone.count(), alone.place(None).of), (4, 4));
        assert_eq!(alone.place(None).share(100), 25);
    }

    #[test]
    fn a_share_of_a_bucket_is_as_slow_as_it_is_small() {
        let policy = BucketPolicy::new("20/s".parse().unwrap(), 100).unwrap();
        let share = Place { rank: 1, of: 4 }.bucket(policy, 1);
        assert_eq!((share.capacity(), share.rate()), (25, "5/s".parse().unwrap()));
        assert_eq!(Place { rank: 1, of: 4 }.bucket(policy, 60).capacity(), 60);
    }
}
