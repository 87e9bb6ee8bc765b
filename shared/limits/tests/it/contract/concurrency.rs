//! How many at once: permits, and that every one comes back.

use std::collections::VecDeque;

use cofferdam_limits::{Outcome, Wait};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, capped, id, levels, tenant_bucket};

pub(crate) fn permits_are_taken_and_given_back<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Tenant, 2)]);
    let first = f.admit("acme", 1, &plan).unwrap();
    let second = f.admit("acme", 1, &plan).unwrap();
    assert_eq!((first.standing().in_flight, second.standing().in_flight), (1, 2));
    let refusal = f.admit("acme", 1, &plan).unwrap_err();
    assert_eq!((refusal.level, refusal.limited), (Level::Tenant, Limited::Concurrency));
    assert_eq!((refusal.wait, refusal.standing.in_flight), (Wait::Unknown, 2));
    for (permit, outcome) in [first, second].into_iter().zip(Outcome::ALL) {
        permit.release(outcome);
        assert!(f.spend("acme", 1, &plan).is_ok());
    }
    assert_eq!(f.limits.in_flight(&id("acme")), 0);
}

pub(crate) fn a_dropped_permit_is_released<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 1), capped(Level::Tenant, 1)]);
    for _ in 0..3 {
        drop(f.admit("acme", 1, &plan).unwrap());
    }
    assert_eq!(f.limits.in_flight(&id("acme")), 0);
    assert_eq!(f.limits.metrics().store.fleet_in_flight, 0);
}

pub(crate) fn a_permit_is_released_from_another_thread<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Tenant, 1)]);
    let permit = f.admit("acme", 1, &plan).unwrap();
    std::thread::spawn(move || permit.release(Outcome::Success)).join().unwrap();
    assert!(f.spend("acme", 1, &plan).is_ok());
}

pub(crate) fn a_cost_of_zero_takes_a_permit<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Tenant, 1)]);
    let _permit = f.admit("acme", 0, &plan).unwrap();
    assert!(f.admit("acme", 0, &plan).is_err());
}

pub(crate) fn no_permits_admit_nothing<S: Subject>(f: &Fixture<S>) {
    let refusal = f.admit("acme", 0, &levels(&[capped(Level::Tenant, 0)])).unwrap_err();
    assert_eq!((refusal.limited, refusal.standing.in_flight), (Limited::Concurrency, 0));
}

// P1
pub(crate) fn in_flight_is_rate_times_time<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("10/s", 10);
    for (tenant, hold_us, expected) in [("quick", 100_000, 1), ("slow", 30_000_000, 300)] {
        let mut held = VecDeque::new();
        for at_us in (0..60_000_000).step_by(100_000) {
            f.at(at_us);
            while held.front().is_some_and(|(since_us, _)| since_us + hold_us <= at_us) {
                held.pop_front();
            }
            held.push_back((at_us, f.admit(tenant, 1, &plan).unwrap()));
        }
        assert_eq!(f.limits.in_flight(&id(tenant)), expected);
    }
}

pub(crate) fn tenants_do_not_share<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Tenant, 1)]);
    let _acme = f.admit("acme", 1, &plan).unwrap();
    assert!(f.admit("acme", 1, &plan).is_err());
    assert!(f.admit("globex", 1, &plan).is_ok());
}
