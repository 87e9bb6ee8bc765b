//! A tenant's own limit on one route: it counts requests, and stands beside the tenant's and the fleet's.

use cofferdam_limits::{LevelPolicy, Levels, Outcome, RouteKey, Wait};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, bucket, id, levels, paced, wait_us};

const SEARCH: RouteKey = RouteKey(0x5ea7c4);
const REPORTS: RouteKey = RouteKey(0x4e9047);

/// 100 tokens of the tenant's that hardly come back, and two requests on each route at 5/s.
fn plan() -> Levels {
    levels(&[paced(Level::Tenant, "1/h", 100), paced(Level::Route, "5/s", 2)])
}

// P45
pub(crate) fn a_routes_limit_counts_the_tenants_requests_whatever_they_cost<S: Subject>(f: &Fixture<S>) {
    for cost in [8, 0] {
        f.admit_on(SEARCH, "acme", cost, &plan()).unwrap().release(Outcome::Success);
    }
    let refusal = f.admit_on(SEARCH, "acme", 0, &plan()).unwrap_err();
    assert_eq!((refusal.level, refusal.limited), (Level::Route, Limited::Rate));
    assert_eq!(refusal.standing.bucket.unwrap().remaining(), 92, "the tenant's bucket pays the cost");
    assert_eq!(refusal.standing.beside.unwrap().route.unwrap().policy(), bucket("5/s", 2));
    assert!(f.admit_on(REPORTS, "acme", 1, &plan()).is_ok(), "another route has a limit of its own");
    assert!(f.admit_on(SEARCH, "globex", 1, &plan()).is_ok(), "and so has another tenant");
    f.at(200_000);
    assert!(f.admit_on(SEARCH, "acme", 1, &plan()).is_ok());
}

// P45
pub(crate) fn of_three_levels_all_are_taken_or_none<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[
        paced(Level::Fleet, "1/s", 20),
        LevelPolicy { max_in_flight: Some(3), ..paced(Level::Tenant, "1/s", 10) },
        paced(Level::Route, "1/s", 4),
    ]);
    let standing = |tenant: &str, route| {
        let look = |level| f.limits.look(&id(tenant), route, plan.get(level).unwrap());
        Level::ALL.map(|level| look(level).bucket.unwrap().remaining())
    };
    let held: Vec<_> = (0..3).map(|_| f.admit_on(SEARCH, "acme", 2, &plan).unwrap()).collect();
    assert_eq!(held[2].standing().beside.as_ref().unwrap().route.unwrap().remaining(), 1);
    assert_eq!(standing("acme", SEARCH), [14, 4, 1]);
    assert_eq!(f.admit_on(SEARCH, "acme", 2, &plan).unwrap_err().limited, Limited::Concurrency);
    assert_eq!(standing("acme", SEARCH), [14, 4, 1], "the tenant refused");
    for (level, tenant, cost, left) in
        [(Level::Tenant, "acme", 5, [14, 4, 1]), (Level::Fleet, "globex", 10, [4, 0, 3])]
    {
        if level == Level::Fleet {
            f.admit_on(SEARCH, tenant, cost, &plan).unwrap().release(Outcome::Success);
        }
        assert_eq!(f.admit_on(SEARCH, tenant, cost, &plan).unwrap_err().level, Level::Tenant);
        assert_eq!(standing(tenant, SEARCH), left);
    }
    assert_eq!(f.admit_on(SEARCH, "initech", 6, &plan).unwrap_err().level, Level::Fleet);
    assert_eq!(standing("initech", SEARCH), [4, 10, 4], "the fleet refused");
}

pub(crate) fn the_strictest_of_three_levels_is_named<S: Subject>(f: &Fixture<S>) {
    let plan = |fleet, tenant, route| {
        let rates = [(Level::Fleet, fleet), (Level::Tenant, tenant), (Level::Route, route)];
        levels(&rates.map(|(level, rate)| paced(level, rate, 1)))
    };
    f.admit_on(SEARCH, "acme", 1, &plan("1/s", "1/s", "1/s")).unwrap().release(Outcome::Success);
    for (plan, strictest, wait) in [
        (plan("1/s", "2/s", "2/s"), Level::Fleet, 1_000_000),
        (plan("2/s", "1/s", "2/s"), Level::Tenant, 1_000_000),
        (plan("2/s", "2/s", "1/s"), Level::Route, 1_000_000),
        (plan("2/s", "2/s", "2/s"), Level::Route, 500_000),
    ] {
        let decided = f.admit_on(SEARCH, "acme", 1, &plan);
        assert_eq!(decided.as_ref().unwrap_err().level, strictest);
        assert_eq!(wait_us(decided), wait);
    }
    let never = levels(&[paced(Level::Tenant, "1/s", 1), paced(Level::Route, "1/s", 1)]);
    let refusal = f.admit_on(SEARCH, "globex", 2, &never).unwrap_err();
    assert_eq!((refusal.level, refusal.wait), (Level::Tenant, Wait::Never), "the route counts requests");
}

pub(crate) fn an_ignored_request_does_not_count_on_its_route<S: Subject>(f: &Fixture<S>) {
    f.admit_on(SEARCH, "acme", 3, &plan()).unwrap().release(Outcome::Ignored);
    f.subject.settle();
    for _ in 0..2 {
        f.admit_on(SEARCH, "acme", 3, &plan()).unwrap().release(Outcome::Dropped);
    }
    assert_eq!(f.admit_on(SEARCH, "acme", 3, &plan()).unwrap_err().level, Level::Route);
    assert_eq!(f.remaining("acme", &levels(&[paced(Level::Tenant, "1/h", 100)])), 94);
}
