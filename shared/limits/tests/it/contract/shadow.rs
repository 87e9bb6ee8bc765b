//! A level that is a shadow counts what it would refuse and lets it pass; nothing is taken of it that is not there.

use std::time::Duration;

use cofferdam_limits::{LevelPolicy, Outcome, RouteKey, ShapePolicy, WindowPolicy, Windows};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, bucket, capped, levels, paced, tenant_bucket, wait_us};

fn shadow(policy: LevelPolicy) -> LevelPolicy {
    LevelPolicy { shadow: true, ..policy }
}

pub(crate) fn a_shadowed_bucket_lets_everything_pass_and_counts_it<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[shadow(paced(Level::Tenant, "5/s", 10))]);
    for _ in 0..4 {
        assert!(f.spend("acme", 4, &plan).is_ok());
    }
    assert!(f.spend("acme", 11, &plan).is_ok(), "more than it could ever hold");
    let metrics = f.limits.metrics();
    assert_eq!(metrics.shadowed(Level::Tenant, Limited::Rate), 3);
    assert_eq!(metrics.refused(Level::Tenant, Limited::Rate), 0);
    // What was not there was not taken: one token is one token away.
    assert_eq!(wait_us(f.spend("acme", 1, &tenant_bucket("5/s", 10))), 200_000);
}

pub(crate) fn shadowed_permits_are_counted_all_the_same<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[shadow(capped(Level::Tenant, 2))]);
    let held: Vec<_> = (0..3).map(|_| f.admit("acme", 1, &plan).unwrap()).collect();
    assert_eq!(held[2].standing().in_flight, 3);
    assert_eq!(f.limits.metrics().shadowed(Level::Tenant, Limited::Concurrency), 1);
    assert!(f.admit("acme", 1, &levels(&[capped(Level::Tenant, 3)])).is_err());
    drop(held);
    f.subject.settle();
    assert!(f.admit("acme", 1, &levels(&[capped(Level::Tenant, 1)])).is_ok());
}

pub(crate) fn a_shadow_at_one_level_leaves_the_others_as_strict<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[paced(Level::Fleet, "5/s", 3), shadow(paced(Level::Tenant, "5/s", 1))]);
    f.drain("acme", 3, &plan);
    let refusal = f.spend("acme", 1, &plan).unwrap_err();
    assert_eq!((refusal.level, refusal.limited), (Level::Fleet, Limited::Rate));
    assert_eq!(
        f.limits.metrics().shadowed(Level::Tenant, Limited::Rate),
        2,
        "what is refused is not counted"
    );
}

pub(crate) fn a_shadowed_quota_and_route_let_everything_pass<S: Subject>(f: &Fixture<S>) {
    let windows = Windows::new(&[WindowPolicy::new(86_400, 5).unwrap()]).unwrap();
    let shape = ShapePolicy::new("1/s".parse().unwrap(), 1, Duration::from_secs(1)).ok();
    let plan = levels(&[
        shadow(LevelPolicy { windows, ..LevelPolicy::unlimited(Level::Tenant) }),
        shadow(LevelPolicy { bucket: Some(bucket("1/h", 2)), shape, ..LevelPolicy::unlimited(Level::Route) }),
    ]);
    for _ in 0..4 {
        let permit = f.admit_on(RouteKey(7), "acme", 3, &plan).unwrap();
        assert_eq!(permit.delay(), Duration::ZERO);
        permit.release(Outcome::Success);
    }
    let shadowed = |level, limited| f.limits.metrics().shadowed(level, limited);
    assert_eq!(shadowed(Level::Tenant, Limited::Quota), 3);
    assert_eq!(shadowed(Level::Route, Limited::Rate), 2);
    assert_eq!(shadowed(Level::Route, Limited::Shape), 2);
}
