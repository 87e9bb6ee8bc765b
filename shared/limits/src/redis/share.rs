//! The share of a fleet's limit that one router may use by itself while the store is away. It knows no tenant's state.
//!
//! Router i of R may use floor(L/R), and one more where its rank for this tenant is below L mod R. Ranks are by rendezvous
//! hash, so that the remainders of many tenants are spread over the routers, and nobody has to agree on anything. While one of
//! them was never seen, nobody knows its own rank, and the remainder is nobody's: else the shares could be more than L.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam_model::{Rate, TenantId};
use parking_lot::RwLock;
use twox_hash::XxHash3_64;

use crate::{BucketPolicy, Demand, Levels, ShapePolicy, Windows};

/// Who shares the limits, as far as this router knows.
#[derive(Debug)]
pub(super) struct Sharers {
    // How many there are, as configured: before any was seen, and at least.
    configured: AtomicU32,
    own: String,
    // The live sessions that were last seen, this one aside.
    others: RwLock<Vec<Other>>,
    // How many share: `others` and this one, or as configured. Every request reads it.
    count: AtomicU32,
}

/// Another router's session.
#[derive(Debug)]
struct Other {
    session: String,
    /// Since when the roll does not name it any more.
    missing_since_us: Option<u64>,
}

/// One router's place among those that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) of: u32,
}

impl Sharers {
    pub(super) fn new(configured: u32, own: String) -> Self {
        let configured = configured.max(1);
        let count = AtomicU32::new(configured);
        Self { configured: AtomicU32::new(configured), own, others: RwLock::default(), count }
    }

    /// Says anew how many there are at least.
    pub(super) fn configure(&self, configured: u32) {
        let others = self.others.write();
        self.configured.store(configured.max(1), Ordering::Relaxed);
        self.recount(&others);
    }

    fn recount(&self, others: &[Other]) {
        let seen = others.len() as u32 + 1;
        self.count.store(seen.max(self.configured.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Takes over the live sessions that the store named. Who is missing counts for one more TTL: a store that forgot
    /// everything names nobody but the first to call, who would take the whole limit for its share.
    pub(super) fn saw(&self, sessions: Vec<String>, now_us: u64, ttl_us: u64) {
        let mut others = self.others.write();
        others.retain_mut(|other| {
            if sessions.contains(&other.session) {
                other.missing_since_us = None;
                return true;
            }
            let since_us = *other.missing_since_us.get_or_insert(now_us);
            now_us.saturating_sub(since_us) < ttl_us
        });
        for session in sessions {
            if session != self.own && !others.iter().any(|other| other.session == session) {
                others.push(Other { session, missing_since_us: None });
            }
        }
        self.recount(&others);
    }

    /// How many share.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
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
        let before = others.iter().filter(|other| weight(&other.session) < own).count() as u32;
        let of = (others.len() as u32 + 1).max(self.configured.load(Ordering::Relaxed));
        let are_all_seen = of == others.len() as u32 + 1;
        // The last in rank has no part in any remainder.
        Place { rank: if are_all_seen { before } else { of - 1 }, of }
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

    /// A demand's levels with this router's share of each limit. Quotas are left out: nobody knows how much of one is left;
    /// and so are lines, of which a router has one of its own.
    pub(super) fn levels(self, demand: &Demand<'_>) -> Levels {
        let mut levels = *demand.levels;
        levels.each_mut(|policy| {
            policy.bucket = policy.bucket.map(|bucket| self.bucket(bucket, demand.cost_at(policy.level)));
            policy.max_in_flight = policy.max_in_flight.map(|limit| self.share(limit));
            policy.windows = Windows::NONE;
            policy.shape = None;
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
            sharers.saw(all.clone(), 0, 6);
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
    fn the_shares_of_those_who_never_saw_each_other_are_no_more_than_the_limit() {
        for n in [2_u32, 3, 5] {
            let all: Vec<_> = (0..n).map(|at| Sharers::new(n, format!("router-{at}"))).collect();
            for limit in 0..3 * n {
                for tenant in ["acme", "bolt", "core", "dove"] {
                    let tenant = TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap();
                    let sum: u32 = all.iter().map(|sharer| sharer.place(Some(&tenant)).share(limit)).sum();
                    assert!(sum <= limit && sum + n > limit, "{sum} of {limit} for {n}");
                }
            }
        }
    }

    #[test]
    fn more_are_reckoned_with_than_were_seen_where_the_file_says_so() {
        let alone = Sharers::new(4, "one".to_owned());
        assert_eq!((alone.count(), alone.place(None).of), (4, 4));
        assert_eq!(alone.place(None).share(100), 25);
    }

    #[test]
    fn how_many_there_are_at_least_may_be_said_anew() {
        let all = sharers(1, &["one", "two"]);
        for (said, count) in [(5, 5), (1, 2), (0, 2), (3, 3)] {
            all[0].configure(said);
            assert_eq!((all[0].count(), all[0].place(None).of), (count, count));
        }
    }

    #[test]
    fn whom_the_roll_names_no_more_counts_for_one_more_ttl() {
        let all = sharers(1, &["one", "two", "three"]);
        let saw = |names: &[&str], now_us| {
            all[0].saw(names.iter().map(|&name| name.to_owned()).collect(), now_us, 6);
            all[0].count()
        };
        // The store was away for long and has forgotten everything: this one is the first to call.
        assert_eq!(saw(&["one"], 100), 3);
        assert_eq!(saw(&["one", "two"], 105), 3);
        assert_eq!(saw(&["one", "two"], 106), 2);
        assert_eq!(saw(&["one", "two", "three"], 107), 3);
    }

    #[test]
    fn a_share_of_a_bucket_is_as_slow_as_it_is_small() {
        let policy = BucketPolicy::new("20/s".parse().unwrap(), 100).unwrap();
        let share = Place { rank: 1, of: 4 }.bucket(policy, 1);
        assert_eq!((share.capacity(), share.rate()), (25, "5/s".parse().unwrap()));
        assert_eq!(Place { rank: 1, of: 4 }.bucket(policy, 60).capacity(), 60);
    }
}
