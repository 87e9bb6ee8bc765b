//! A policy that changes under way.

use cofferdam_limits::{Outcome, Wait};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, capped, levels, tenant_bucket, wait_us};

pub(crate) fn a_lowered_capacity_clamps_and_a_raised_one_gives_nothing<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    f.drain("acme", 4, &plan);
    assert_eq!(f.remaining("acme", &tenant_bucket("5/s", 3)), 3);
    assert_eq!(f.remaining("acme", &tenant_bucket("5/s", 20)), 6);
    // What was clamped and written is gone.
    f.drain("acme", 1, &tenant_bucket("5/s", 3));
    assert_eq!(f.remaining("acme", &tenant_bucket("5/s", 20)), 2);
}

pub(crate) fn a_full_bucket_is_the_same_as_none<S: Subject>(f: &Fixture<S>) {
    let (plan, raised) = (tenant_bucket("5/s", 10), tenant_bucket("5/s", 50));
    f.drain("acme", 4, &plan);
    f.at(799_999);
    assert_eq!(f.remaining("acme", &raised), 9, "it is not full yet");
    f.at(801_000);
    assert_eq!(f.remaining("acme", &raised), 50, "it is idle, and has the new burst");
}

pub(crate) fn a_change_of_units_is_rounded_down<S: Subject>(f: &Fixture<S>) {
    f.drain("acme", 9, &tenant_bucket("3/s", 10));
    f.at(100_000); // 1.3 tokens
    assert_eq!(f.remaining("acme", &tenant_bucket("3/s", 10)), 1);
    f.drain("acme", 1, &tenant_bucket("3/s", 10));
    // 0.3 tokens are left, and now 7 come in a minute: what is missing of one takes 6 s.
    assert_eq!(wait_us(f.spend("acme", 1, &tenant_bucket("7/min", 10))), 6_000_000);
}

pub(crate) fn a_lowered_number_of_permits_drains<S: Subject>(f: &Fixture<S>) {
    let of = |n| levels(&[capped(Level::Tenant, n)]);
    let mut held: Vec<_> = (0..6).map(|_| f.admit("acme", 1, &of(6)).unwrap()).collect();
    for in_flight in (3..=6).rev() {
        let refusal = f.spend("acme", 1, &of(3)).unwrap_err();
        assert_eq!((refusal.limited, refusal.wait), (Limited::Concurrency, Wait::Unknown));
        assert_eq!((refusal.standing.in_flight, refusal.standing.max_in_flight), (in_flight, Some(3)));
        held.pop().unwrap().release(Outcome::Success);
    }
    assert!(f.spend("acme", 1, &of(3)).is_ok());
}

pub(crate) fn a_raised_number_of_permits_counts_what_is_in_flight<S: Subject>(f: &Fixture<S>) {
    let of = |n| levels(&[capped(Level::Tenant, n)]);
    let _held: Vec<_> = (0..2).map(|_| f.admit("acme", 1, &of(2)).unwrap()).collect();
    let _third = f.admit("acme", 1, &of(3)).unwrap();
    assert!(f.admit("acme", 1, &of(3)).is_err());
}
