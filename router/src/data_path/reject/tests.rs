//! Statuses of refusals, and when to come back after them.

use std::collections::BTreeSet;

use cofferdam_limits::Standing;

use super::*;

fn refusal(wait: Wait) -> Refusal {
    Refusal { level: Level::Tenant, limited: Limited::Rate, wait, standing: Standing::default() }
}

/// Every Retry-After that 200 refusals have.
fn seen(wait: Wait, jitter: f64) -> BTreeSet<Option<u64>> {
    let one = |_| {
        let answer = Rejection::limit(&refusal(wait), jitter).problem().into_response();
        answer.headers().get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap())
    };
    (0..200).map(one).collect()
}

#[test]
fn retry_after_is_never_before_the_wait_and_jitter_only_adds() {
    // P47, P51
    let until = |ms| Wait::Until(Duration::from_millis(ms));
    for (wait, jitter, expected) in [
        (until(1500), 0.0, 2..=2),
        (until(3000), 0.0, 3..=3),
        (Wait::Until(Duration::from_nanos(1_000_000_001)), 0.0, 2..=2),
        (until(1500), 0.1, 2..=3),
        (until(1000), 0.1, 1..=2),
        (Wait::Unknown, 0.1, 1..=2),
        (until(7000), 0.5, 7..=11),
    ] {
        assert_eq!(seen(wait, jitter), expected.map(Some).collect(), "{wait:?} {jitter}");
    }
    assert_eq!(seen(Wait::Never, 0.5), [None].into());
}

#[test]
fn a_tenants_own_limit_is_429_and_our_lack_of_room_503() {
    // P48
    let status = |reason| Rejection::new(reason, "").problem().status().as_u16();
    assert_eq!(status(Reason::Limit(Level::Tenant, Limited::Concurrency)), 429);
    assert_eq!(status(Reason::Cell(CellRefusal::full(CellReason::Tenant))), 429);
    assert_eq!(status(Reason::Limit(Level::Tenant, Limited::Quota)), 429);
    assert_eq!(status(Reason::Limit(Level::Route, Limited::Rate)), 429);
    assert_eq!(status(Reason::Limit(Level::Fleet, Limited::Rate)), 503);
    assert_eq!(status(Reason::Limit(Level::Route, Limited::Shape)), 503);
    assert_eq!(status(Reason::Limit(Level::Fleet, Limited::Store)), 503);
    assert_eq!(status(Reason::Cell(CellRefusal::full(CellReason::Class))), 503);
    assert_eq!(status(Reason::Cell(CellRefusal::full(CellReason::Cell))), 503);
    assert_eq!((status(Reason::PairDown), status(Reason::Shed)), (503, 503));
}
