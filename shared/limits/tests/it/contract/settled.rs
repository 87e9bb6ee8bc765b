//! A cost that is known in the end: the difference is given back or charged when the permit is released.

use cofferdam_limits::{LevelPolicy, Levels, Outcome, RouteKey, WindowPolicy, Windows};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, id, levels, paced, tenant_bucket, wait_us};

fn settle<S: Subject>(f: &Fixture<S>, cost: u32, settled: u32, outcome: Outcome, plan: &Levels) {
    let mut permit = f.admit_on(RouteKey(7), "acme", cost, plan).unwrap();
    permit.settle(settled);
    permit.release(outcome);
    f.subject.settle();
}

pub(crate) fn the_difference_is_given_back_or_charged<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("1/h", 100);
    for (cost, settled, left) in [(20, 5, 95), (5, 20, 75), (0, 10, 65), (10, 0, 65), (10, 10, 55)] {
        settle(f, cost, settled, Outcome::Success, &plan);
        assert_eq!(f.remaining("acme", &plan), left, "{cost} {settled}");
    }
    settle(f, 5, 15, Outcome::Dropped, &plan);
    assert_eq!(f.remaining("acme", &plan), 40, "what was cut off is settled too");
    settle(f, 5, 15, Outcome::Ignored, &plan);
    assert_eq!(f.remaining("acme", &plan), 40, "what reached no backend costs nothing");
}

pub(crate) fn a_level_goes_below_zero_down_to_minus_one_burst<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    settle(f, 2, 12, Outcome::Success, &plan);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 3 * 200_000);
    assert_eq!(f.remaining("acme", &plan), 0, "a cost of zero passes all the same");
    f.at(600_000);
    f.drain("acme", 1, &plan);
    f.at(800_000);
    settle(f, 1, 1_000, Outcome::Success, &plan);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 11 * 200_000);
    settle(f, 0, 1_000, Outcome::Success, &plan);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 11 * 200_000);
    f.at(800_000 + 2_199_999);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1);
    f.at(800_000 + 2_200_000);
    f.drain("acme", 1, &plan);
}

pub(crate) fn what_flowed_in_before_a_charge_is_no_more_than_fits<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    let mut permit = f.admit("acme", 1, &plan).unwrap();
    f.at(60_000_000);
    permit.settle(5);
    permit.release(Outcome::Success);
    f.subject.settle();
    assert_eq!(f.remaining("acme", &plan), 6, "the bucket was full for a minute");
}

pub(crate) fn the_tenant_and_the_fleet_are_charged_and_the_route_is_not<S: Subject>(f: &Fixture<S>) {
    let windows = Windows::new(&[WindowPolicy::new(86_400, 90).unwrap()]).unwrap();
    let plan = levels(&[
        paced(Level::Fleet, "1/h", 200),
        LevelPolicy { windows, ..paced(Level::Tenant, "1/h", 100) },
        paced(Level::Route, "1/h", 10),
    ]);
    settle(f, 10, 30, Outcome::Success, &plan);
    settle(f, 10, 5, Outcome::Success, &plan);
    let look = |level| f.limits.look(&id("acme"), RouteKey(7), plan.get(level).unwrap());
    assert_eq!(Level::ALL.map(|level| look(level).bucket.unwrap().remaining()), [165, 65, 8]);
    assert_eq!(look(Level::Tenant).beside.unwrap().windows[0].unwrap().remaining(), 55);
    settle(f, 1, 60, Outcome::Success, &plan);
    let refusal = f.admit_on(RouteKey(7), "acme", 1, &plan).unwrap_err();
    assert_eq!(refusal.limited, Limited::Quota, "a quota is overdrawn by what was not known before");
}
