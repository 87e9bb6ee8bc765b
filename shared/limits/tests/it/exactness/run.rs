//! Runs: one kind of limit, one pattern, so many routers; what they refused that the exact limiter admitted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use cofferdam_limits::{Admission, Demand, Embedded, LevelPolicy, Levels, Limits, Outcome, Permit, RouteKey};
use cofferdam_model::{Level, TenantId};

use super::traffic::{Pattern, Traffic};
use super::{Fleet, admit};
use crate::contract::{id, levels, paced};
use crate::subject::START_US;

/// The routers look at what they have on loan ten times a second of the machine's time: theirs goes no more than so much faster.
const FASTER: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Permits,
    Tokens,
    /// Few a second, with a burst.
    SlowTokens,
    Ceiling,
    Routes,
}

/// One run: how much of the limit is offered, in a hundred.
#[derive(Debug, Clone, Copy)]
struct Run {
    kind: Kind,
    pattern: Pattern,
    n_routers: usize,
    percent: u32,
    n_requests: u32,
}

/// What came of a run.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    admitted: u64,
    refused: u64,
    /// Refused, though the exact limiter admits it.
    falsely: u64,
    calls: u64,
    unanswered: u64,
}

impl Kind {
    /// The limits, and how many requests a second are all that they let pass, each so many microseconds long.
    fn plan(self) -> (Levels, f64, f64) {
        let permits = |level, n| LevelPolicy { max_in_flight: Some(n), ..paced(level, "100k/s", 200_000) };
        match self {
            Self::Permits => (levels(&[permits(Level::Tenant, 60)]), 3_000.0, 20_000.0),
            Self::Tokens => (levels(&[paced(Level::Tenant, "3000/s", 6_000)]), 3_000.0, 2_000.0),
            Self::SlowTokens => (levels(&[paced(Level::Tenant, "20/s", 100)]), 20.0, 2_000.0),
            Self::Ceiling => {
                let tenant = permits(Level::Tenant, 50);
                (levels(&[permits(Level::Fleet, 120), tenant]), 3_000.0, 40_000.0)
            }
            Self::Routes => {
                let tenant = paced(Level::Tenant, "3000/s", 6_000);
                (levels(&[tenant, paced(Level::Route, "1500/s", 3_000)]), 3_000.0, 2_000.0)
            }
        }
    }

    fn n_tenants(self) -> u64 {
        if self == Self::Ceiling { 8 } else { 1 }
    }
}

/// Requests in flight by when they end.
struct InFlight {
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    permits: Vec<Option<(Permit, Option<Permit>)>>,
}

impl Run {
    fn go(self, seed: u64) -> Seen {
        let mut fleet = Fleet::start(self.n_routers);
        let oracle = Limits::embedded(Embedded::new(fleet.held.clock.clone().into()));
        let (plan, all, long_us) = self.kind.plan();
        let per_second = all * f64::from(self.percent) / 100.0;
        let mut traffic = Traffic::new(self.pattern, self.n_routers, per_second, seed);
        let tenants: Vec<TenantId> = (0..self.kind.n_tenants()).map(|n| id(&format!("tenant-{n}"))).collect();
        let (mut seen, begun, mut churned_us) = (Seen::default(), Instant::now(), 0);
        let mut in_flight = InFlight { ends: BinaryHeap::new(), permits: Vec::new() };
        for _ in 0..self.n_requests {
            let (at_us, router) = traffic.next();
            in_flight.end_until(at_us, &fleet);
            fleet.reach(START_US + at_us);
            if let Some(ahead) = Duration::from_micros(at_us / FASTER).checked_sub(begun.elapsed()) {
                std::thread::sleep(ahead);
            }
            if self.pattern == Pattern::Churn && at_us > churned_us + 2_000_000 {
                churned_us = at_us;
                fleet.replace(router);
            }
            let tenant = &tenants[traffic.dice.below(tenants.len() as u64) as usize];
            let mut demand = Demand::new(tenant, 1, &plan);
            demand.route = RouteKey(traffic.dice.below(2));
            let ours = admit(fleet.router(router), &demand);
            let exact = match oracle.admit(&demand) {
                Admission::Admitted(permit) => Some(permit),
                _ => None,
            };
            let lasts_us = traffic.dice.memoryless(long_us) as u64;
            match (ours, exact) {
                (Ok(permit), exact) => {
                    seen.admitted += 1;
                    in_flight.begin(at_us + lasts_us, (permit, exact));
                }
                (Err(_), exact) => {
                    seen.refused += 1;
                    seen.falsely += u64::from(exact.is_some());
                    if let Some(exact) = exact {
                        in_flight.begin(at_us + lasts_us, (exact, None));
                    }
                }
            }
            self.check(&fleet, &plan, &tenants, &seen, at_us);
        }
        seen.calls = fleet.stores.iter().map(|store| store.sharing().link.calls).sum();
        seen.unanswered = fleet.unanswered();
        seen
    }

    /// No more than the limits let pass.
    fn check(self, fleet: &Fleet, plan: &Levels, tenants: &[TenantId], seen: &Seen, at_us: u64) {
        let bucket = plan.as_slice().iter().filter_map(|policy| policy.bucket).next().unwrap();
        let most = bucket.capacity() + at_us * bucket.rate().tokens() / bucket.rate().period_us() + 1;
        assert!(seen.admitted <= most || self.kind == Kind::Routes, "{self:?}: {seen:?}, and not {most}");
        if self.pattern != Pattern::Churn {
            let used = |at: usize, tenant| fleet.router(at).in_flight(tenant);
            let of = |tenant| (0..self.n_routers).map(|at| used(at, tenant)).sum::<u32>();
            let most = plan.get(Level::Tenant).and_then(|policy| policy.max_in_flight).unwrap_or(u32::MAX);
            let all: Vec<u32> = tenants.iter().map(of).collect();
            assert!(all.iter().all(|n| *n <= most), "{self:?}: {all:?} of {most}");
            let most = plan.get(Level::Fleet).and_then(|policy| policy.max_in_flight).unwrap_or(u32::MAX);
            assert!(all.iter().sum::<u32>() <= most, "{self:?}: {all:?} of {most}");
        }
    }
}

impl InFlight {
    fn begin(&mut self, ends_us: u64, permits: (Permit, Option<Permit>)) {
        self.ends.push(Reverse((ends_us, self.permits.len())));
        self.permits.push(Some(permits));
    }

    /// Ends those that are over by then, each at its time.
    fn end_until(&mut self, at_us: u64, fleet: &Fleet) {
        while let Some(Reverse((ends_us, place))) = self.ends.peek().copied()
            && ends_us <= at_us
        {
            self.ends.pop();
            fleet.reach(START_US + ends_us);
            if let Some((ours, exact)) = self.permits[place].take() {
                ours.release(Outcome::Success);
                exact.into_iter().for_each(|permit| permit.release(Outcome::Success));
            }
        }
    }
}

/// Every pattern against every kind of limit, at half of the limit, near it and above it.
fn runs(n_requests: u32) -> Vec<(u64, Run)> {
    use Pattern::{Alternating, Bursty, Churn, Hot, Random, Skewed};
    let patterns = [Alternating, Random, Skewed(60), Skewed(95), Bursty, Hot, Churn];
    let kinds = [Kind::Permits, Kind::Tokens, Kind::Ceiling, Kind::Routes, Kind::SlowTokens];
    let routers = [2, 3, 4, 8];
    let mut runs = Vec::new();
    for (k, kind) in kinds.into_iter().enumerate() {
        for (p, pattern) in patterns.into_iter().enumerate() {
            // Routers that leave take along what they hold until it ends: that is for limits that are not used up.
            let loads: &[u32] = if pattern == Churn { &[50] } else { &[50, 90] };
            for (l, &percent) in loads.iter().enumerate() {
                let (n_routers, seed) = (routers[(k + p + l) % 4], (k * 100 + p * 10 + l) as u64);
                let n_requests = if kind == Kind::SlowTokens { n_requests / 20 } else { n_requests };
                runs.push((seed, Run { kind, pattern, n_routers, percent, n_requests }));
            }
        }
        for (n_routers, percent) in [(2, 150), (4, 500)] {
            let n_requests = if kind == Kind::SlowTokens { n_requests / 20 } else { n_requests };
            let run = Run { kind, pattern: Random, n_routers, percent, n_requests };
            runs.push((1_000 + k as u64, run));
        }
    }
    runs
}

/// Runs them all, a few at a time, and holds them to the bounds.
#[expect(clippy::print_stdout, reason = "a run of a million says what came of each")]
fn hold(n_requests: u32) {
    let all = runs(n_requests);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let seen = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                while let Some((seed, run)) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let came = run.go(*seed);
                    println!("{run:?} {came:?}");
                    seen.lock().push((*run, came));
                }
            });
        }
    });
    let seen = seen.into_inner();
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(|(_, seen)| of(seen)).sum::<u64>();
    let (admitted, falsely) = (sum(|seen| seen.admitted), sum(|seen| seen.falsely));
    println!("{admitted} admitted, {} refused, {falsely} of them falsely", sum(|seen| seen.refused));
    for (run, seen) in &seen {
        let most = if run.percent <= 50 { 0 } else { seen.admitted / 1_000 + 1 };
        assert!(seen.falsely <= most, "{run:?}: {seen:?}");
    }
    assert!(falsely * 1_000 <= admitted, "{falsely} of {admitted}");
}

/// `make exactness` has a million of them.
#[test]
fn routers_refuse_what_one_exact_limiter_refuses() {
    let asked = std::env::var("EXACTNESS_REQUESTS").ok();
    hold(asked.map_or(1_000, |n| n.parse().unwrap()));
}
