//! How many requests may be tried again after they may have been executed: a share of all requests, and a floor, for each
//! tenant and for all. Where a cell fails what it is sent, retries then add a share to the load and no multiple.
//!
//! Requests of the last ten seconds count, fading; the floor is ten seconds' worth to begin with, and comes back at its rate.
//! Tenants are counted by slot, and some slots together: who meets there shares a budget, and memory does not grow.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_fleet::{RetryBudget as Rules, RetryShare};
use parking_lot::Mutex;

/// How long a request counts.
const MEMORY: Duration = Duration::from_secs(10);

/// How many budgets of tenants there are.
const N_ACCOUNTS: usize = 4096;

/// The budgets of one router.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    all: Account,
    /// By slot.
    tenants: Box<[Account]>,
    n_allowed: AtomicU64,
    n_denied_tenant: AtomicU64,
    n_denied_all: AtomicU64,
}

/// One budget. Requests only add to a number; whoever wants a retry pays for the sum.
#[derive(Debug)]
struct Account {
    /// Since the start; it wraps.
    requests: AtomicU32,
    balance: Mutex<Balance>,
}

#[derive(Debug, Clone, Copy)]
struct Balance {
    at: Instant,
    /// Of `requests`, those that are in `earned`.
    seen: u32,
    /// Retries that requests have paid for.
    earned: f64,
    /// What is used of the floor's ten seconds.
    borrowed: f64,
}

/// What the metrics show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryCounts {
    pub(crate) allowed: u64,
    pub(crate) denied_tenant: u64,
    pub(crate) denied_all: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl RetryBudget {
    fn new(now: Instant) -> Self {
        Self {
            all: Account::new(now),
            tenants: (0..N_ACCOUNTS).map(|_| Account::new(now)).collect(),
            n_allowed: AtomicU64::new(0),
            n_denied_tenant: AtomicU64::new(0),
            n_denied_all: AtomicU64::new(0),
        }
    }

    /// A request of a tenant with this slot, tried for the first time.
    pub(crate) fn deposit(&self, slot: u32) {
        for account in [&self.all, self.of(slot)] {
            account.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a request of a tenant with this slot may be tried again, which is paid for then.
    pub(crate) fn withdraw(&self, slot: u32, rules: &Rules, now: Instant) -> bool {
        let (tenant, all) = (self.of(slot), &self.all);
        if !tenant.take(rules.tenant, now) {
            self.n_denied_tenant.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if !all.take(rules.all, now) {
            tenant.balance.lock().earned += 1.0;
            self.n_denied_all.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.n_allowed.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// How many retries a tenant with this slot has left.
    pub(crate) fn left(&self, slot: u32, rules: &Rules, now: Instant) -> f64 {
        self.of(slot).left(rules.tenant, now)
    }

    /// How many retries all tenants together have left.
    pub(crate) fn left_of_all(&self, rules: &Rules, now: Instant) -> f64 {
        self.all.left(rules.all, now)
    }

    /// Counts for metrics.
    pub(crate) fn counts(&self) -> RetryCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RetryCounts {
            allowed: read(&self.n_allowed),
            denied_tenant: read(&self.n_denied_tenant),
            denied_all: read(&self.n_denied_all),
        }
    }

    fn of(&self, slot: u32) -> &Account {
        &self.tenants[slot as usize % N_ACCOUNTS]
    }
}

impl Account {
    fn new(now: Instant) -> Self {
        let balance = Balance { at: now, seen: 0, earned: 0.0, borrowed: 0.0 };
        Self { requests: AtomicU32::new(0), balance: Mutex::new(balance) }
    }

    fn take(&self, share: RetryShare, now: Instant) -> bool {
        let mut balance = self.balance.lock();
        balance.settle(self.requests.load(Ordering::Relaxed), share, now);
        if balance.earned >= 1.0 {
            balance.earned -= 1.0;
        } else if balance.borrowed + 1.0 <= reserve(share) {
            balance.borrowed += 1.0;
        } else {
            return false;
        }
        true
    }

    fn left(&self, share: RetryShare, now: Instant) -> f64 {
        let mut balance = *self.balance.lock();
        balance.settle(self.requests.load(Ordering::Relaxed), share, now);
        balance.earned + (reserve(share) - balance.borrowed).max(0.0)
    }
}

impl Balance {
    /// What came since the last look is taken to have come evenly, and fades from then on.
    fn settle(&mut self, requests: u32, share: RetryShare, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let new = f64::from(requests.wrapping_sub(self.seen)) * share.ratio.as_f64();
        let faded = passed / MEMORY.as_secs_f64();
        let part = if faded > 0.0 { -(-faded).exp_m1() / faded } else { 1.0 };
        self.earned = self.earned * (-faded).exp() + new * part;
        self.borrowed = (self.borrowed - floor(share) * passed).max(0.0);
        (self.at, self.seen) = (self.at.max(now), requests);
    }
}

/// Retries a second that need no requests.
fn floor(share: RetryShare) -> f64 {
    share.floor.tokens() as f64 * 1e6 / share.floor.period_us() as f64
}

fn reserve(share: RetryShare) -> f64 {
    floor(share) * MEMORY.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use cofferdam_fleet::Share;
    use cofferdam_model::Rate;

    use super::*;

    fn share(millionths: u32, floor: u64) -> RetryShare {
        RetryShare { ratio: Share::from_millionths(millionths), floor: Rate::per_second(floor).unwrap() }
    }

    /// The same for all and for each tenant.
    fn rules() -> Rules {
        Rules { all: share(200_000, 10), tenant: share(200_000, 10) }
    }

    fn drain(budget: &RetryBudget, slot: u32, rules: &Rules, now: Instant) -> u32 {
        std::iter::repeat_with(|| budget.withdraw(slot, rules, now)).take_while(|allowed| *allowed).count()
            as u32
    }

    #[test]
    fn without_a_request_a_hundred_retries_and_then_none() {
        let now = Instant::now();
        let budget = RetryBudget::new(now);
        assert_eq!(drain(&budget, 7, &rules(), now), 100);
        assert!(!budget.withdraw(7, &rules(), now + Duration::from_millis(99)));
        assert!(budget.withdraw(7, &rules(), now + Duration::from_millis(101)), "the floor is ten a second");
        assert_eq!(
            drain(&budget, 7, &rules(), now + Duration::from_secs(60)),
            100,
            "and never more than before"
        );
    }

    #[test]
    fn a_fifth_of_the_requests_may_be_tried_again() {
        let now = Instant::now();
        let budget = RetryBudget::new(now);
        drain(&budget, 7, &rules(), now);
        for _ in 0..50 {
            budget.deposit(7);
        }
        assert_eq!(drain(&budget, 7, &rules(), now), 10);
        for _ in 0..1000 {
            budget.deposit(7);
        }
        let much_later = now + Duration::from_secs(100);
        let allowed = drain(&budget, 7, &rules(), much_later);
        assert!(
            (119..=120).contains(&allowed),
            "{allowed}: of 10/s for 100 s, those of the last ten seconds count"
        );
    }

    #[test]
    fn steady_failure_is_retried_at_the_ratio_and_the_floor() {
        let (mut now, rules) = (Instant::now(), rules());
        let budget = RetryBudget::new(now);
        let mut allowed = 0;
        for step in 0..100_000 {
            if step == 50_000 {
                allowed = 0;
            }
            // A thousand a second, all of which fail.
            budget.deposit(7);
            allowed += u32::from(budget.withdraw(7, &rules, now));
            now += Duration::from_millis(1);
        }
        assert!((10_450..=10_550).contains(&allowed), "{allowed} in 50 s, of 50,000");
    }

    #[test]
    fn one_tenants_retries_leave_those_of_others() {
        let now = Instant::now();
        let (budget, rules) = (RetryBudget::new(now), Rules { tenant: share(200_000, 2), ..rules() });
        assert_eq!(drain(&budget, 7, &rules, now), 20);
        assert_eq!(drain(&budget, 8, &rules, now), 20);
        assert_eq!(budget.counts(), RetryCounts { allowed: 40, denied_tenant: 2, denied_all: 0 });
        assert!(budget.left_of_all(&rules, now) == 60.0 && budget.left(9, &rules, now) == 20.0);
        for slot in 100..103 {
            drain(&budget, slot, &rules, now);
        }
        assert!(!budget.withdraw(999, &rules, now), "all together have no more");
        assert_eq!((budget.counts().denied_all, budget.left(999, &rules, now)), (1, 20.0));
    }
}
