//! A route that is let through evenly: who comes early waits for its turn, in a line that is bounded twice.

use std::time::Duration;

use cofferdam_limits::{LevelPolicy, Levels, Outcome, RouteKey, ShapePolicy, Wait};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, capped, id, levels};

const IMPORT: RouteKey = RouteKey(0x1390e7);
const EXPORT: RouteKey = RouteKey(0xe49047);

fn shaped(rate: &str, depth: u32, max_wait_ms: u64) -> LevelPolicy {
    let max_wait = Duration::from_millis(max_wait_ms);
    let shape = ShapePolicy::new(rate.parse().unwrap(), depth, max_wait).unwrap();
    LevelPolicy { shape: Some(shape), ..LevelPolicy::unlimited(Level::Route) }
}

fn line(rate: &str, depth: u32, max_wait_ms: u64) -> Levels {
    levels(&[LevelPolicy::unlimited(Level::Tenant), shaped(rate, depth, max_wait_ms)])
}

/// The delay of an admission in milliseconds; for a refusal, the wait.
fn ask<S: Subject>(f: &Fixture<S>, route: RouteKey, tenant: &str, plan: &Levels) -> Result<u128, u128> {
    match f.admit_on(route, tenant, 1, plan) {
        Ok(permit) => {
            let delay = permit.delay().as_millis();
            permit.release(Outcome::Success);
            Ok(delay)
        }
        Err(refusal) => {
            assert_eq!((refusal.level, refusal.limited), (Level::Route, Limited::Shape));
            let Wait::Until(wait) = refusal.wait else { panic!("{refusal:?}") };
            Err(wait.as_millis())
        }
    }
}

// P53
pub(crate) fn a_burst_leaves_evenly_and_the_line_has_an_end<S: Subject>(f: &Fixture<S>) {
    let plan = line("5/s", 3, 60_000);
    let burst: Vec<_> = (0..5).map(|_| ask(f, IMPORT, "acme", &plan)).collect();
    assert_eq!(burst, [Ok(0), Ok(200), Ok(400), Ok(600), Err(200)]);
    f.at(199_999);
    assert!(ask(f, IMPORT, "acme", &plan).is_err());
    f.at(200_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(600));
    // A line that has run out is none.
    f.at(5_000_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(0));
    f.at(5_150_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(50));
}

// P53
pub(crate) fn in_a_second_no_more_go_on_than_the_rate<S: Subject>(f: &Fixture<S>) {
    let plan = line("7/s", 5, 10_000);
    let mut went = Vec::new();
    for us in (0..20_000_000).step_by(33_000) {
        f.at(us);
        if let Ok(permit) = f.admit_on(IMPORT, "acme", 1, &plan) {
            went.push(us as u128 + permit.delay().as_micros());
            permit.release(Outcome::Success);
        }
    }
    assert!(went.len() >= 7 * 20);
    // 142,857.1 us each, of which a delay is rounded up.
    assert!(went.windows(2).all(|pair| pair[1] - pair[0] >= 142_857), "{went:?}");
    assert!(went.windows(8).all(|eight| eight[7] - eight[0] >= 999_999));
}

pub(crate) fn nobody_waits_longer_than_the_line_says<S: Subject>(f: &Fixture<S>) {
    let plan = line("5/s", 100, 250);
    let asked: Vec<_> = (0..3).map(|_| ask(f, IMPORT, "acme", &plan)).collect();
    assert_eq!(asked, [Ok(0), Ok(200), Err(150)]);
    f.at(150_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(250));
}

pub(crate) fn all_tenants_of_a_route_stand_in_one_line<S: Subject>(f: &Fixture<S>) {
    let plan = line("5/s", 3, 60_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(0));
    assert_eq!(ask(f, IMPORT, "globex", &plan), Ok(200));
    assert_eq!(ask(f, EXPORT, "globex", &plan), Ok(0), "another route has a line of its own");
}

pub(crate) fn without_a_line_who_comes_early_is_refused<S: Subject>(f: &Fixture<S>) {
    let plan = line("5/s", 0, 0);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(0));
    f.at(50_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Err(150));
    f.at(200_000);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(0));
}

pub(crate) fn a_refusal_elsewhere_takes_no_turn<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Tenant, 1), shaped("5/s", 3, 60_000)]);
    let held = f.admit_on(IMPORT, "acme", 1, &plan).unwrap();
    for _ in 0..3 {
        let refusal = f.admit_on(IMPORT, "acme", 1, &plan).unwrap_err();
        assert_eq!((refusal.level, refusal.limited), (Level::Tenant, Limited::Concurrency));
    }
    held.release(Outcome::Success);
    assert_eq!(ask(f, IMPORT, "acme", &plan), Ok(200));
    assert_eq!(f.limits.in_flight(&id("acme")), 0);
}

pub(crate) fn who_goes_away_before_its_turn_has_spent_nothing<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[super::paced(Level::Tenant, "1/h", 10), shaped("5/s", 3, 60_000)]);
    for (begins, left) in [(true, 9), (false, 9), (true, 8)] {
        let mut permit = f.admit_on(IMPORT, "acme", 1, &plan).unwrap();
        if begins {
            permit.begin();
        }
        drop(permit);
        f.subject.settle();
        assert_eq!(f.remaining("acme", &levels(&[super::paced(Level::Tenant, "1/h", 10)])), left);
    }
}
