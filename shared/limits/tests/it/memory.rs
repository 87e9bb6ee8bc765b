//! The table of tenants is bounded; what happens at the bound is defined, and never admits more than a limit.

use std::time::Duration;

use crate::contract::{START_US, capped, id, levels, paced, tenant_bucket};
use cofferdam_limits::{
    Admission, Clock, Demand, Embedded, LevelPolicy, Levels, Limits, ManualClock, Outcome, Permit,
};
use cofferdam_model::{Level, Limited};
use proptest::collection::vec;
use proptest::prelude::*;

const ROOM: usize = 256;

fn engine(n_tenants: usize) -> (Limits, ManualClock) {
    let clock = ManualClock::at(START_US);
    (Limits::embedded(Embedded::with_tenants(Clock::from(clock.clone()), n_tenants)), clock)
}

fn admit(limits: &Limits, tenant: &str, cost: u32, levels: &Levels) -> Option<Permit> {
    match limits.admit(&Demand::new(&id(tenant), cost, levels)) {
        Admission::Admitted(permit) => Some(permit),
        Admission::Refused(_) => None,
        Admission::Pending(_) => panic!("the embedded store decides at once"),
    }
}

#[test]
fn one_shot_tenants_are_forgotten_when_room_is_needed() {
    let (limits, clock) = engine(ROOM);
    for n in 0..10 * ROOM {
        clock.advance(Duration::from_secs(1));
        assert!(admit(&limits, &format!("once-{n}"), 1, &tenant_bucket("5/s", 10)).is_some());
    }
    let store = limits.metrics().store;
    assert!(store.tenants <= store.tenants_max && store.tenants_max <= ROOM);
    assert_eq!((store.evicted + store.tenants as u64, store.overflowed), (10 * ROOM as u64, 0));
}

#[test]
fn tenants_beyond_the_room_share() {
    let (limits, _clock) = engine(ROOM);
    for n in 0..10 * ROOM {
        // Nobody's bucket ever fills again, since the clock stands still: nobody can be forgotten.
        let _ = admit(&limits, &format!("once-{n}"), 1, &tenant_bucket("5/s", 1));
    }
    let metrics = limits.metrics();
    assert!(metrics.store.tenants <= ROOM);
    assert_eq!(metrics.store.evicted, 0);
    assert!(metrics.store.overflowed >= 9 * ROOM as u64);
    assert_eq!(metrics.store.admitted + metrics.refused(Level::Tenant, Limited::Rate), 10 * ROOM as u64);
    assert!(metrics.store.admitted <= 2 * ROOM as u64, "those who share have one bucket");
}

#[test]
fn a_tenant_with_a_permit_in_flight_is_never_forgotten() {
    let (limits, clock) = engine(ROOM);
    let plan = levels(&[capped(Level::Tenant, 1)]);
    let held = admit(&limits, "acme", 1, &plan).unwrap();
    for n in 0..10 * ROOM {
        clock.advance(Duration::from_secs(1));
        drop(admit(&limits, &format!("once-{n}"), 1, &plan));
        assert!(admit(&limits, "acme", 1, &plan).is_none());
    }
    assert_eq!(limits.in_flight(&id("acme")), 1);
    drop(held);
    assert!(admit(&limits, "acme", 1, &plan).is_some());
}

#[test]
fn a_tenant_that_gets_a_state_of_its_own_owes_what_it_took_while_it_shared() {
    let (limits, clock) = engine(1);
    let plan = levels(&[LevelPolicy { max_in_flight: Some(2), ..paced(Level::Tenant, "5/s", 10) }]);
    let room = admit(&limits, "globex", 0, &plan).unwrap();
    let shared = [4, 6].map(|cost| admit(&limits, "acme", cost, &plan).unwrap());
    assert_eq!(limits.metrics().store.overflowed, 2);
    drop(room);
    clock.advance(Duration::from_millis(400));
    // Now there is room: two tokens have come back, and both permits are still out.
    assert!(admit(&limits, "acme", 1, &plan).is_none());
    assert_eq!((limits.metrics().store.evicted, limits.in_flight(&id("acme"))), (1, 2));
    let [first, second] = shared;
    first.release(Outcome::Success);
    assert!(admit(&limits, "acme", 3, &plan).is_none());
    let third = admit(&limits, "acme", 2, &plan).unwrap();
    assert!(admit(&limits, "acme", 0, &plan).is_none(), "one from before, and one from after");
    drop((second, third));
    assert!(admit(&limits, "acme", 0, &plan).is_some());
}

proptest! {
    /// Three tenants of three plans share one state and move in and out of the only room there is.
    #[test]
    fn whoever_shares_never_exceeds_its_own_limits(steps in vec((0..3_usize, 0_u64..300_000, 0_u32..4, any::<bool>()), 1..120)) {
        let (limits, clock) = engine(1);
        let plans = [("7/s", 10, 2), ("3/s", 4, 1), ("1000/min", 40, 3)];
        let mut held: [Vec<Permit>; 3] = Default::default();
        let mut admitted: [Vec<(u64, u64)>; 3] = Default::default();
        for (who, step_us, cost, release) in steps {
            clock.advance(Duration::from_micros(step_us));
            let (rate, capacity, max) = plans[who];
            let plan = levels(&[LevelPolicy { max_in_flight: Some(max), ..paced(Level::Tenant, rate, capacity) }]);
            if let Some(permit) = admit(&limits, ["a", "b", "c"][who], cost, &plan) {
                held[who].push(permit);
                admitted[who].push((clock.now_us(), u64::from(cost)));
            }
            prop_assert!(held[who].len() <= max as usize);
            if release {
                held[who].clear();
            }
        }
        for ((rate, capacity, _), admitted) in plans.into_iter().zip(&admitted) {
            let rate: cofferdam_model::Rate = rate.parse().unwrap();
            for (first, (from_us, _)) in admitted.iter().enumerate() {
                let mut sum = 0;
                for (at_us, cost) in &admitted[first..] {
                    sum += cost;
                    let bound = capacity * rate.period_us() + rate.tokens() * (at_us - from_us);
                    prop_assert!(sum * rate.period_us() <= bound);
                }
            }
        }
    }
}
