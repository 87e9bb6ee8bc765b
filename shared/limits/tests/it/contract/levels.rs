//! Several levels at once: all are taken or none, and the strictest is named.

use std::time::Duration;

use cofferdam_limits::{LevelPolicy, RouteKey, Wait};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, bucket, capped, id, levels, paced, wait_us};

// P45
pub(crate) fn the_strictest_level_is_named<S: Subject>(f: &Fixture<S>) {
    let both = |fleet, tenant| levels(&[paced(Level::Fleet, fleet, 1), paced(Level::Tenant, tenant, 1)]);
    f.drain("acme", 1, &both("1/s", "1/s"));
    for (fleet, tenant, strictest, wait_us) in
        [("1/s", "5/s", Level::Fleet, 1_000_000), ("5/s", "1/s", Level::Tenant, 1_000_000)]
    {
        let refusal = f.spend("acme", 1, &both(fleet, tenant)).unwrap_err();
        assert_eq!(refusal.level, strictest);
        assert_eq!(refusal.wait, Wait::Until(Duration::from_micros(wait_us)));
        assert_eq!(
            refusal.standing.bucket.unwrap().policy(),
            bucket(tenant, 1),
            "the standing is the tenant's"
        );
    }
    // A wait that is known is stricter than one that is not.
    let plan = levels(&[paced(Level::Fleet, "1/s", 1), capped(Level::Tenant, 0)]);
    assert_eq!(f.spend("acme", 1, &plan).unwrap_err().limited, Limited::Rate);
}

pub(crate) fn never_is_stricter_than_any_wait<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[paced(Level::Fleet, "1/s", 2), paced(Level::Tenant, "1/s", 10)]);
    f.drain("acme", 2, &plan);
    let refusal = f.spend("acme", 3, &plan).unwrap_err();
    assert_eq!((refusal.level, refusal.wait), (Level::Fleet, Wait::Never));
    assert_eq!(refusal.standing.bucket.unwrap().remaining(), 8);
}

pub(crate) fn among_equals_the_narrowest_is_named<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 0), capped(Level::Tenant, 0)]);
    assert_eq!(f.spend("acme", 1, &plan).unwrap_err().level, Level::Tenant);
    let plan = levels(&[paced(Level::Fleet, "1/s", 1), paced(Level::Tenant, "1/s", 1)]);
    f.drain("acme", 1, &plan);
    assert_eq!(f.spend("acme", 1, &plan).unwrap_err().level, Level::Tenant);
}

pub(crate) fn a_refusal_at_one_level_takes_nothing_at_the_other<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[
        LevelPolicy { max_in_flight: Some(1), ..paced(Level::Fleet, "5/s", 10) },
        LevelPolicy { max_in_flight: Some(5), ..paced(Level::Tenant, "5/s", 5) },
    ]);
    let held = f.admit("globex", 1, &plan).unwrap();
    for _ in 0..20 {
        assert_eq!(f.spend("acme", 1, &plan).unwrap_err().level, Level::Fleet);
    }
    drop(held);
    assert_eq!(f.limits.in_flight(&id("acme")), 0);
    f.drain("acme", 5, &plan);
    for _ in 0..20 {
        assert_eq!(wait_us(f.spend("acme", 1, &plan)), 200_000);
    }
    f.drain("globex", 4, &plan);
    let refusal = f.spend("initech", 1, &plan).unwrap_err();
    assert_eq!((refusal.level, refusal.standing.bucket.unwrap().remaining()), (Level::Fleet, 5));
}

pub(crate) fn the_fleets_limit_is_one_for_all_tenants<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 3), capped(Level::Tenant, 2)]);
    let _held = ["a", "a", "b"].map(|tenant| f.admit(tenant, 1, &plan).unwrap());
    assert_eq!(f.admit("b", 1, &plan).unwrap_err().level, Level::Fleet);
    assert_eq!(f.limits.metrics().store.fleet_in_flight, 3);
}

pub(crate) fn one_level_alone_is_enough<S: Subject>(f: &Fixture<S>) {
    let fleet = levels(&[LevelPolicy { max_in_flight: Some(1), ..paced(Level::Fleet, "5/s", 10) }]);
    let permit = f.admit("acme", 4, &fleet).unwrap();
    assert_eq!(permit.standing(), &Default::default(), "there is no tenant level to stand at");
    assert_eq!(f.admit("globex", 1, &fleet).unwrap_err().limited, Limited::Concurrency);
    assert_eq!(
        f.limits.look(&id("acme"), RouteKey::default(), &fleet.as_slice()[0]).bucket.unwrap().remaining(),
        6
    );
}

pub(crate) fn metrics_count_by_level_and_kind<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 1), paced(Level::Tenant, "5/s", 1)]);
    let held = f.admit("acme", 1, &plan).unwrap();
    assert!(f.admit("globex", 1, &plan).is_err());
    drop(held);
    assert!(f.admit("acme", 1, &plan).is_err());
    assert!(f.admit("acme", 2, &plan).is_err());
    let metrics = f.limits.metrics();
    assert_eq!(metrics.store.admitted, 1);
    assert_eq!(metrics.refused(Level::Fleet, Limited::Concurrency), 1);
    assert_eq!(metrics.refused(Level::Tenant, Limited::Rate), 2);
    assert_eq!(metrics.refused(Level::Tenant, Limited::Concurrency), 0);
}
