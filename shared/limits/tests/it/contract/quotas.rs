//! Quotas by sliding windows: previous x (1 - elapsed / window) + current, in whole seconds.

use std::time::Duration;

use cofferdam_limits::{LevelPolicy, Levels, Outcome, Refusal, Wait, WindowPolicy, Windows};
use cofferdam_model::{Level, Limited};

use super::{Fixture, Subject, bucket, levels};

const SECOND: i64 = 1_000_000;
const DAY_S: u64 = 86_400;

/// The tenant level with quotas alone, each a window in seconds and its tokens.
fn quotas(windows: &[(u64, u64)]) -> Levels {
    let windows: Vec<_> = windows.iter().map(|(s, limit)| WindowPolicy::new(*s, *limit).unwrap()).collect();
    let windows = Windows::new(&windows).unwrap();
    levels(&[LevelPolicy { windows, ..LevelPolicy::unlimited(Level::Tenant) }])
}

#[track_caller]
fn wait_s(refusal: &Refusal) -> u64 {
    match refusal {
        Refusal { level: Level::Tenant, limited: Limited::Quota, wait: Wait::Until(wait), .. } => {
            assert_eq!(wait.subsec_nanos(), 0, "{wait:?}");
            wait.as_secs()
        }
        other => panic!("not a wait for a quota: {other:?}"),
    }
}

/// The clock starts 40 s into a minute, so the edge is 20 s away.
// P43
pub(crate) fn nothing_is_spent_twice_at_the_edge_of_a_window<S: Subject>(f: &Fixture<S>) {
    let minute = quotas(&[(60, 10)]);
    f.at(19 * SECOND);
    let admitted = (0..20).filter(|_| f.spend("acme", 1, &minute).is_ok()).count();
    assert_eq!(admitted, 10);
    f.at(20 * SECOND);
    assert_eq!(wait_s(&f.spend("acme", 1, &minute).unwrap_err()), 6);
    // A tenth of the minute before has slid out every six seconds.
    for seconds in (26..=74).step_by(6) {
        f.at(seconds * SECOND - 1);
        assert!(f.spend("acme", 1, &minute).is_err(), "{seconds}");
        f.at(seconds * SECOND);
        assert!(f.spend("acme", 1, &minute).is_ok(), "{seconds}");
        assert!(f.spend("acme", 1, &minute).is_err(), "{seconds}");
    }
}

/// The clock starts 10,000 s into a day and a month.
// P54
pub(crate) fn a_day_and_a_month_have_quotas_of_their_own<S: Subject>(f: &Fixture<S>) {
    let plan = quotas(&[(DAY_S, 10), (30 * DAY_S, 12)]);
    for spent in 1..=10 {
        let standing = f.spend("acme", 1, &plan).unwrap();
        let left = standing.beside.unwrap().windows.map(|window| window.unwrap().remaining());
        assert_eq!(left, [10 - spent, 12 - spent]);
    }
    // Nine of ten count when a tenth of the next day has passed.
    let refusal = f.spend("acme", 1, &plan).unwrap_err();
    assert_eq!(wait_s(&refusal), DAY_S + DAY_S / 10 - 10_000);
    let left = refusal.standing.beside.unwrap().windows.map(|window| window.unwrap().remaining());
    assert_eq!(left, [0, 2]);
    f.at(2 * DAY_S as i64 * SECOND);
    assert!(f.spend("acme", 2, &plan).is_ok());
    // The day has room, and the month does not: two and a half days into the next one, 11 of 12 count.
    let wait = 30 * DAY_S + 30 * DAY_S / 12 - 10_000 - 2 * DAY_S;
    assert_eq!(wait_s(&f.spend("acme", 1, &plan).unwrap_err()), wait);
}

// P47
pub(crate) fn a_wait_for_a_quota_is_exact<S: Subject>(f: &Fixture<S>) {
    for (tenant, window_s, limit, before, cost) in
        [("a", 60, 10, 10, 1), ("b", 60, 10, 10, 10), ("c", 7, 3, 3, 2), ("d", 86_400, 1_000, 999, 500)]
    {
        let plan = quotas(&[(window_s, limit)]);
        f.at(0);
        f.spend(tenant, before, &plan).unwrap();
        let wait = wait_s(&f.spend(tenant, cost, &plan).unwrap_err()) as i64;
        f.at(wait * SECOND - 1);
        assert_eq!(f.spend(tenant, cost, &plan).unwrap_err().limited, Limited::Quota, "{tenant}");
        f.at(wait * SECOND);
        assert!(f.spend(tenant, cost, &plan).is_ok(), "{tenant}");
    }
}

pub(crate) fn a_quota_and_a_bucket_are_taken_together<S: Subject>(f: &Fixture<S>) {
    let window = WindowPolicy::new(DAY_S, 5).unwrap();
    let plan = levels(&[LevelPolicy {
        bucket: Some(bucket("1/s", 4)),
        windows: Windows::new(&[window]).unwrap(),
        ..LevelPolicy::unlimited(Level::Tenant)
    }]);
    let left = |standing: cofferdam_limits::Standing| {
        let quota = standing.beside.unwrap().windows[0].unwrap().remaining();
        (standing.bucket.unwrap().remaining(), quota)
    };
    assert_eq!(left(f.spend("acme", 3, &plan).unwrap()), (1, 2));
    for _ in 0..3 {
        let refusal = f.spend("acme", 2, &plan).unwrap_err();
        assert_eq!((refusal.limited, left(refusal.standing)), (Limited::Rate, (1, 2)), "nothing is taken");
    }
    f.at(4 * SECOND);
    let refusal = f.spend("acme", 3, &plan).unwrap_err();
    assert_eq!((refusal.limited, left(refusal.standing)), (Limited::Quota, (4, 2)));
    // Both refuse: the quota's wait is the longer one.
    f.spend("acme", 2, &plan).unwrap();
    assert_eq!(f.spend("acme", 3, &plan).unwrap_err().limited, Limited::Quota);
    assert_eq!(left(f.spend("acme", 0, &plan).unwrap()), (2, 0), "a cost of zero only looks");
}

pub(crate) fn a_cost_above_a_quota_is_refused_for_good<S: Subject>(f: &Fixture<S>) {
    let refusal = f.spend("acme", 11, &quotas(&[(DAY_S, 20), (60, 10)])).unwrap_err();
    assert_eq!((refusal.limited, refusal.wait), (Limited::Quota, Wait::Never));
}

pub(crate) fn an_ignored_request_gets_its_quota_back<S: Subject>(f: &Fixture<S>) {
    let plan = quotas(&[(DAY_S, 10)]);
    f.admit("acme", 8, &plan).unwrap().release(Outcome::Ignored);
    f.subject.settle();
    f.admit("acme", 8, &plan).unwrap().release(Outcome::Dropped);
    f.subject.settle();
    assert!(f.spend("acme", 3, &plan).is_err());
    assert!(f.spend("acme", 2, &plan).is_ok());
}

pub(crate) fn a_changed_quota_counts_what_was_spent<S: Subject>(f: &Fixture<S>) {
    f.spend("acme", 6, &quotas(&[(DAY_S, 10)])).unwrap();
    assert!(f.spend("acme", 1, &quotas(&[(DAY_S, 5)])).is_err(), "lowered");
    assert!(f.spend("acme", 14, &quotas(&[(DAY_S, 20)])).is_ok(), "raised");
    // A window of another length begins now.
    assert!(f.spend("acme", 5, &quotas(&[(60, 5)])).is_ok());
    let wait = f.spend("acme", 1, &quotas(&[(60, 5)])).unwrap_err().wait;
    assert_eq!(wait, Wait::Until(Duration::from_secs(20 + 12)));
}
