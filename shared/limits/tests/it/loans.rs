//! Limits on loan: two routers that share a server, and what they take, keep and give back. The time is in the test's hand;
//! the routers look at it ten times a second.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use cofferdam_limits::redis::link::DEFAULT_TIMEOUT;
use cofferdam_limits::redis::{BUCKETS, Mode, RedisStore};
use cofferdam_limits::{
    Admission, Demand, LevelPolicy, Levels, Limits, Outcome, PendingAdmission, Permit, Refusal,
};
use cofferdam_model::Level;

use crate::contract::{capped, id, levels, paced, runtime};
use crate::shared_store::HeldServer;
use crate::subject::START_US;

const PATIENCE: Duration = Duration::from_secs(20);

/// A router: its engine, and the store beneath it.
struct Router {
    limits: Limits,
    store: Arc<RedisStore>,
}

impl Router {
    fn start(held: &HeldServer, mode: Mode, name: &str) -> Self {
        let store = held.open(mode, name);
        Self { limits: Limits::new(store.clone(), Duration::from_secs(600)), store }
    }

    fn admit(&self, cost: u32, plan: &Levels) -> Result<Permit, Refusal> {
        match self.limits.admit(&Demand::new(&id("acme"), cost, plan)) {
            Admission::Admitted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending(pending) => runtime(false).block_on(pending),
        }
    }

    /// Admits until it is refused; how many requests that were, all of them ended.
    fn drain(&self, plan: &Levels) -> u32 {
        let mut n = 0;
        while let Ok(permit) = self.admit(1, plan) {
            permit.release(Outcome::Success);
            n += 1;
        }
        n
    }

    fn calls(&self) -> u64 {
        self.store.sharing().link.calls
    }

    fn settle(&self) {
        runtime(false).block_on(self.store.settled());
    }
}

/// Two routers on one server.
fn pair(mode: Mode) -> (HeldServer, Router, Router) {
    pair_on(HeldServer::start(), mode)
}

fn pair_on(held: HeldServer, mode: Mode) -> (HeldServer, Router, Router) {
    let routers = ["sessiona", "sessionb"].map(|name| Router::start(&held, mode, name));
    let [a, b] = routers;
    (held, a, b)
}

/// Looks once.
fn is_pending(pending: &mut PendingAdmission) -> bool {
    runtime(false).block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut *pending).poll(cx).is_pending())))
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A bucket that hardly fills, and permits.
fn plan(burst: u64, max_in_flight: u32) -> Levels {
    levels(&[LevelPolicy { max_in_flight: Some(max_in_flight), ..paced(Level::Tenant, "1/h", burst) }])
}

#[test]
fn two_routers_spend_one_bucket() {
    // P45, P49
    for mode in [Mode::Exact, Mode::Lease, Mode::Auto] {
        let (_held, a, b) = pair(mode);
        let plan = plan(100, 50);
        let mut n = 0;
        for _ in 0..40 {
            for router in [&a, &b] {
                n += u32::from(router.admit(1, &plan).map(|permit| permit.release(Outcome::Success)).is_ok());
            }
        }
        n += a.drain(&plan) + b.drain(&plan);
        // What the one holds the other may not have: at most what it has not given back yet.
        let on_loan = a.store.sharing().idle_tokens + b.store.sharing().idle_tokens;
        assert!(n <= 100 && u64::from(n) + on_loan >= 100, "{mode:?}: {n} admitted, {on_loan} on loan");
    }
}

#[test]
fn two_routers_never_hold_more_permits_than_one() {
    for mode in [Mode::Exact, Mode::Lease, Mode::Auto] {
        let (_held, a, b) = pair(mode);
        let plan = plan(1000, 10);
        let mut permits = Vec::new();
        for _ in 0..12 {
            permits.extend([&a, &b].into_iter().filter_map(|router| router.admit(1, &plan).ok()));
        }
        assert!(permits.len() <= 10, "{mode:?}: {}", permits.len());
        assert!(permits.len() >= 7, "{mode:?}: {} though 10 may be", permits.len());
    }
}

#[test]
fn a_permit_that_one_router_gives_back_the_other_can_have() {
    for mode in [Mode::Exact, Mode::Auto] {
        let (held, a, b) = pair(mode);
        let plan = levels(&[capped(Level::Tenant, 1)]);
        let permit = a.admit(1, &plan).unwrap();
        assert!(b.admit(1, &plan).is_err());
        permit.release(Outcome::Success);
        a.settle();
        // A refusal is remembered for a moment.
        held.set_us(START_US + 30_000);
        assert!(b.admit(1, &plan).is_ok(), "{mode:?}");
    }
}

#[test]
fn what_was_granted_to_one_who_gave_up_goes_back_at_once() {
    let (_held, a, b) = pair(Mode::Exact);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(1), ..paced(Level::Tenant, "1/h", 100) }]);
    for _ in 0..5 {
        let Admission::Pending(mut pending) = a.limits.admit(&Demand::new(&id("acme"), 20, &plan)) else {
            panic!()
        };
        assert!(is_pending(&mut pending));
        // The store has answered, and nobody has looked yet.
        a.settle();
        drop(pending);
        a.settle();
    }
    assert_eq!((a.store.sharing().idle_tokens, a.store.sharing().idle_permits), (0, 0));
    assert_eq!(b.drain(&plan), 100);
}

#[test]
fn a_store_that_heard_of_something_later_is_asked_a_few_times_and_then_the_share_decides() {
    for mode in [Mode::Exact, Mode::Lease] {
        let (held, a, _b) = pair(mode);
        let plan = levels(&[capped(Level::Tenant, 10)]);
        eventually("every slot has begun, and the ceiling's", || a.calls() > u64::from(BUCKETS) + 1);
        held.overtake(&id("acme"), "sessiona");
        let before = a.calls();
        let permits: Vec<_> = (0..10).map_while(|_| a.admit(1, &plan).ok()).collect();
        assert_eq!(permits.len(), 5, "{mode:?}: half of the limit");
        let calls = a.calls() - before;
        // Eight for each admission, and the roll and what is said of the loan meanwhile.
        assert!(calls <= 11 * 8 + 20, "{mode:?}: {calls} calls");
    }
}

#[test]
fn what_is_on_loan_is_spent_without_a_call() {
    let (held, a, _b) = pair(Mode::Lease);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(100), ..paced(Level::Tenant, "10k/s", 20_000) }]);
    let mut now_us = START_US;
    let mut spend = |n: u32| {
        for _ in 0..n {
            now_us += 1_000;
            if now_us.is_multiple_of(50_000) {
                held.set_us(now_us);
                // The routers look at their loans ten times a second of their own time.
                std::thread::sleep(Duration::from_millis(25));
            }
            a.admit(1, &plan).unwrap().release(Outcome::Success);
        }
    };
    spend(2_000);
    let before = a.calls();
    spend(2_000);
    let calls = a.calls() - before;
    assert!(calls <= 140, "{calls} calls for 2,000 admissions at 1,000/s");
}

#[test]
fn what_lies_idle_goes_back() {
    let (held, a, b) = pair(Mode::Lease);
    let plan = plan(100, 10);
    let spent = a.drain(&plan);
    assert_eq!(spent, 100);
    let full = levels(&[LevelPolicy { max_in_flight: Some(10), ..paced(Level::Tenant, "100/s", 100) }]);
    held.set_us(START_US + 1_000_000);
    // Whatever the one has on loan after this, it uses none of it.
    let _ = a.admit(1, &full).map(|permit| permit.release(Outcome::Success));
    eventually("nothing lies idle", || {
        held.set_us(held.clock.now_us() + 10_000);
        let sharing = a.store.sharing();
        sharing.idle_tokens == 0 && sharing.idle_permits == 0
    });
    a.settle();
    held.set_us(held.clock.now_us() + 10_000_000);
    assert_eq!(b.drain(&full), 100, "the other can have all of it");
}

#[test]
fn a_server_that_a_busy_machine_holds_up_is_not_away() {
    let (held, a, _b) = pair(Mode::Exact);
    let plan = plan(10, 10);
    a.admit(1, &plan).unwrap().release(Outcome::Success);
    held.pause();
    std::thread::scope(|threads| {
        let drained = threads.spawn(|| a.drain(&plan));
        std::thread::sleep(2 * DEFAULT_TIMEOUT);
        held.resume();
        assert_eq!(drained.join().unwrap(), 9, "half of the limit would be a share");
    });
}

#[test]
fn who_holds_nothing_is_forgotten() {
    let (held, a, _b) = pair(Mode::Auto);
    let plan = plan(100, 10);
    a.admit(1, &plan).unwrap().release(Outcome::Success);
    assert_eq!(a.limits.metrics().store.tenants, 1);
    held.set_us(START_US + 60_000_000);
    eventually("the tenant is forgotten", || {
        held.set_us(held.clock.now_us() + 1_000_000);
        a.limits.metrics().store.tenants == 0
    });
    assert!(a.admit(1, &plan).is_ok(), "and may come again");
}

#[test]
fn thousands_of_tenants_come_and_go_without_an_error() {
    let (held, a, _b) = pair(Mode::Auto);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(10), ..paced(Level::Tenant, "20/s", 100) }]);
    for n in 0..1_000 {
        let tenant = id(&format!("tenant-{n}"));
        let admission = match a.limits.admit(&Demand::new(&tenant, 1, &plan)) {
            Admission::Pending(pending) => runtime(false).block_on(pending),
            Admission::Admitted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
        };
        let permit = admission.unwrap();
        // Some are looked at while they have nothing to say and somebody still holds them.
        held.set_us(held.clock.now_us() + 600);
        permit.release(Outcome::Success);
    }
    eventually("all are forgotten", || {
        held.set_us(held.clock.now_us() + 1_000_000);
        a.limits.metrics().store.tenants == 0
    });
    let metrics = a.limits.metrics();
    assert_eq!((metrics.store_errors, metrics.store_timeouts, metrics.fallback_admitted), (0, 0, 0));
}

#[test]
fn a_store_that_is_back_is_not_asked_for_everybody_at_once() {
    let (held, a, _b) = pair_on(HeldServer::that_may_be_away(), Mode::Auto);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(10), ..paced(Level::Tenant, "20/s", 100) }]);
    for n in 0..500 {
        let tenant = id(&format!("tenant-{n}"));
        if let Admission::Pending(pending) = a.limits.admit(&Demand::new(&tenant, 1, &plan)) {
            runtime(false).block_on(pending).unwrap().release(Outcome::Success);
        }
    }
    a.settle();
    let before = a.calls();
    // One call that is never answered, and then the next one is.
    held.pause();
    let Admission::Pending(mut pending) = a.limits.admit(&Demand::new(&id("acme"), 1, &plan)) else {
        panic!()
    };
    assert!(is_pending(&mut pending));
    eventually("the store is away", || a.store.sharing().is_away);
    held.resume();
    held.set_us(held.clock.now_us() + 10_000_000);
    eventually("the store is back", || !a.store.sharing().is_away);
    a.settle();
    let calls = a.calls() - before;
    assert!(calls < 1_500, "{calls} calls for 500 tenants");
}

#[test]
fn a_tenant_that_comes_once_costs_two_calls() {
    let (held, a, _b) = pair(Mode::Auto);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(10), ..paced(Level::Tenant, "20/s", 100) }]);
    eventually("every slot has begun, and the ceiling's", || a.calls() > u64::from(BUCKETS) + 1);
    let before = a.calls();
    a.admit(1, &plan).unwrap().release(Outcome::Success);
    for _ in 0..30 {
        held.set_us(held.clock.now_us() + 50_000);
        std::thread::sleep(Duration::from_millis(30));
    }
    a.settle();
    let calls = a.calls() - before;
    // The roll is called once a second, which is in here as well.
    assert!((2..=5).contains(&calls), "{calls} calls");
}

/// The time goes on by 100 ms; both take what they may.
fn go_on(held: &HeldServer, routers: &[Router; 2], plan: &Levels, in_use: &mut [Vec<Permit>; 2]) -> usize {
    held.set_us(held.clock.now_us() + 100_000);
    std::thread::sleep(Duration::from_millis(5));
    for (router, in_use) in routers.iter().zip(&mut *in_use) {
        in_use.extend(std::iter::from_fn(|| router.admit(1, plan).ok()).take(20));
    }
    in_use[0].len() + in_use[1].len()
}

#[test]
fn after_a_wipe_two_routers_use_one_share_above_the_limit_at_most_and_then_none() {
    for mode in [Mode::Exact, Mode::Lease, Mode::Auto] {
        let (held, a, b) = pair(mode);
        let (routers, plan) = ([a, b], levels(&[capped(Level::Tenant, 6)]));
        let mut in_use = [Vec::new(), Vec::new()];
        assert!(go_on(&held, &routers, &plan, &mut in_use) <= 6, "{mode:?}");
        held.wipe();
        for _ in 0..40 {
            let n = go_on(&held, &routers, &plan, &mut in_use);
            assert!(n <= 9, "{mode:?}: {n} in use of 6");
        }
        // No call for longer than a loan, but not for as long as the server learns.
        held.set_us(held.clock.now_us() + 1_900_000);
        for _ in 0..60 {
            let n = go_on(&held, &routers, &plan, &mut in_use);
            assert!(n <= 9, "{mode:?}: {n} in use of 6");
        }
        for in_use in &mut in_use {
            in_use.drain(..).for_each(|permit| permit.release(Outcome::Success));
        }
        for _ in 0..40 {
            let n = go_on(&held, &routers, &plan, &mut in_use);
            assert!(n <= 6, "{mode:?}: {n} in use of 6");
        }
    }
}

#[test]
fn nobody_is_refused_below_the_limit_however_many_come_at_once() {
    let (held, a, _b) = pair(Mode::Lease);
    let policy = |level| LevelPolicy { max_in_flight: Some(1_000), ..paced(level, "1M/s", 1_000_000) };
    let plan = levels(&[policy(Level::Fleet), policy(Level::Tenant)]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..400 {
                    a.admit(1, &plan).unwrap().release(Outcome::Success);
                    held.clock.advance(Duration::from_micros(300));
                }
            });
        }
    });
}
