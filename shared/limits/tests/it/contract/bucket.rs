//! The bucket, exactly: right values to the microsecond.

use std::cell::Cell;
use std::time::Duration;

use cofferdam_limits::{Outcome, Wait};
use cofferdam_model::Limited;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Fixture, START_US, Subject, tenant_bucket, wait_us};

pub(crate) fn eleven_at_once_ten_pass_and_the_wait_is_exact<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    for left in (0..10).rev() {
        assert_eq!(f.spend("acme", 1, &plan).unwrap().bucket.unwrap().remaining(), left);
    }
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 200_000);
    f.at(199_999);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1);
    f.at(200_000);
    let standing = f.spend("acme", 1, &plan).unwrap().bucket.unwrap();
    assert_eq!((standing.remaining(), standing.until_one_more()), (0, Duration::from_micros(200_000)));
}

pub(crate) fn a_cost_above_the_capacity_is_refused_for_good<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    let refusal = f.spend("acme", 11, &plan).unwrap_err();
    assert_eq!((refusal.limited, refusal.wait), (Limited::Rate, Wait::Never));
    assert_eq!(refusal.standing.bucket.unwrap().remaining(), 10);
    assert_eq!(f.limits.metrics().store.tenants, 0, "no key was made");
}

pub(crate) fn a_cost_of_zero_only_looks<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    assert_eq!(f.spend("acme", 0, &plan).unwrap().bucket.unwrap().remaining(), 10);
    // There is no bucket that a raised capacity would have to give something to.
    assert_eq!(f.remaining("acme", &tenant_bucket("5/s", 50)), 50);
    f.drain("acme", 10, &plan);
    assert_eq!(f.remaining("acme", &plan), 0, "an empty bucket lets a cost of zero pass");
}

pub(crate) fn a_clock_that_goes_back_keeps_the_level<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    f.drain("acme", 10, &plan);
    f.at(-1_000_000);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1_200_000);
    f.at(199_999);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1);
    // Further back than the 2 s in which it fills: the stored time is reset, and the wait it tells is enough.
    f.at(-5_000_000);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 200_000);
    f.at(-4_800_001);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1);
    f.at(-4_800_000);
    assert!(f.spend("acme", 1, &plan).is_ok());
}

pub(crate) fn a_third_of_a_second_is_rounded_up<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("3/s", 1);
    f.drain("acme", 1, &plan);
    f.at(333_333);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 1);
    f.at(333_334);
    assert!(f.spend("acme", 1, &plan).is_ok());
}

pub(crate) fn seven_a_minute_is_seven_a_minute<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("7/min", 7);
    let polls = (0..=120_000_000).step_by(10_000);
    let admitted = polls.filter(|&us| {
        f.at(us);
        f.spend("acme", 1, &plan).is_ok()
    });
    assert_eq!(admitted.count(), 21);
}

// P42
pub(crate) fn a_burst_of_100_then_20_a_second<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("20/s", 100);
    f.drain("acme", 100, &plan);
    assert_eq!(wait_us(f.spend("acme", 1, &plan)), 50_000);
    for second in 1..=3 {
        f.at(second * 1_000_000);
        f.drain("acme", 20, &plan);
        assert_eq!(wait_us(f.spend("acme", 1, &plan)), 50_000);
    }
    f.at(60_000_000);
    assert_eq!(f.remaining("acme", &plan), 100);
}

// P46
pub(crate) fn weighted_costs_are_charged<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 30);
    let left = [1, 8, 16, 2].map(|cost| f.spend("acme", cost, &plan).unwrap().bucket.unwrap().remaining());
    assert_eq!(left, [29, 21, 5, 3]);
    assert_eq!(wait_us(f.spend("acme", 16, &plan)), 13 * 200_000);
    assert!(f.spend("acme", 2, &plan).is_ok(), "what is cheap enough passes");
}

pub(crate) fn a_denial_changes_nothing<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    f.drain("acme", 8, &plan);
    for _ in 0..3 {
        let refusal = f.spend("acme", 5, &plan).unwrap_err();
        assert_eq!(refusal.wait, Wait::Until(Duration::from_micros(600_000)));
        assert_eq!(refusal.standing.bucket.unwrap().remaining(), 2);
        assert_eq!(refusal.standing.in_flight, 0);
    }
    f.drain("acme", 2, &plan);
}

pub(crate) fn only_an_ignored_request_gets_its_tokens_back<S: Subject>(f: &Fixture<S>) {
    let plan = tenant_bucket("5/s", 10);
    for (outcome, left) in [(Outcome::Success, 6), (Outcome::Dropped, 2), (Outcome::Ignored, 2)] {
        let cost = if outcome == Outcome::Ignored { 2 } else { 4 };
        f.admit("acme", cost, &plan).unwrap().release(outcome);
        assert_eq!(f.remaining("acme", &plan), left, "{outcome:?}");
    }
    drop(f.admit("acme", 1, &plan).unwrap());
    assert_eq!(f.remaining("acme", &plan), 1, "a drop is not a refund");
    // What is given back late fills no bucket above its capacity.
    let late = f.admit("acme", 1, &plan).unwrap();
    f.at(60_000_000);
    late.release(Outcome::Ignored);
    assert_eq!(f.remaining("acme", &plan), 10);
}

/// In any window over random schedules: admitted x P <= capacity x P + N x elapsed.
pub(crate) fn no_window_admits_more_than_capacity_and_rate<S: Subject>(f: &Fixture<S>) {
    let step = (0_u64..400_000, 0_u32..5, any::<bool>());
    let schedules = (1_u64..50, 1_u64..3_000_000, 1_u64..20, vec(step, 1..60));
    let (case, now_us) = (Cell::new(0), Cell::new(START_US));
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&schedules, |(tokens, period_us, capacity, schedule)| {
        case.set(case.get() + 1);
        let tenant = format!("tenant-{}", case.get());
        let plan = tenant_bucket(&format!("{tokens}/{period_us}us"), capacity);
        let mut admitted = Vec::new();
        for (step_us, cost, ignored) in schedule {
            now_us.set(now_us.get() + step_us);
            f.subject.set_us(now_us.get());
            let Ok(permit) = f.admit(&tenant, cost, &plan) else { continue };
            permit.release(if ignored { Outcome::Ignored } else { Outcome::Success });
            if !ignored {
                admitted.push((now_us.get(), u64::from(cost)));
            }
        }
        for (first, (from_us, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (at_us, cost) in &admitted[first..] {
                sum += cost;
                prop_assert!(sum * period_us <= capacity * period_us + tokens * (at_us - from_us));
            }
        }
        Ok(())
    });
    run.unwrap();
}
