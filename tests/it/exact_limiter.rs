//! The exact limiter that `make limits-live` judges by: which refusals it calls false.

use std::time::{Duration, Instant};

#[allow(dead_code, reason = "the program that measures has its own part of it")]
#[path = "../live/exact.rs"]
mod exact;

use exact::{Limit, Outcome, Said};

/// One request: when it was sent and answered, in milliseconds.
fn outcome(begun: Instant, sent: u64, answered: u64, said: Said) -> Outcome {
    let at = |ms| begun + Duration::from_millis(ms);
    Outcome { router: 0, sent: at(sent), answered: at(answered), said }
}

/// How many refusals among these requests are false.
fn n_false(limit: Limit, requests: &[(u64, u64, Said)]) -> usize {
    let begun = Instant::now();
    let outcomes: Vec<_> = requests
        .iter()
        .map(|(sent, answered, said)| outcome(begun, *sent, *answered, said.clone()))
        .collect();
    limit.false_refusals(&outcomes).count()
}

#[test]
fn a_refusal_is_false_if_a_permit_was_free_all_the_time() {
    use Said::{Admitted, Refused};
    let limit = Limit::Permits(2);
    let one = (0, 1000, Admitted);
    assert_eq!(n_false(limit, &[one.clone(), (500, 510, Refused)]), 1);
    assert_eq!(n_false(limit, &[one.clone(), (100, 400, Admitted), (500, 510, Refused)]), 1, "after the end");
    assert_eq!(n_false(limit, &[one.clone(), (100, 900, Admitted), (500, 510, Refused)]), 0);
    assert_eq!(
        n_false(limit, &[one.clone(), (505, 900, Admitted), (500, 510, Refused)]),
        0,
        "it came meanwhile"
    );
    assert_eq!(
        n_false(limit, &[one, (100, 900, Refused), (500, 510, Refused)]),
        2,
        "a refused one holds nothing"
    );
}

#[test]
fn a_refusal_is_false_if_a_token_was_there_all_the_time() {
    use Said::{Admitted, Refused};
    let limit = Limit::Tokens { burst: 2.0, rate: 10.0 };
    let both = [(0, 1, Admitted), (2, 3, Admitted)];
    let with = |last: (u64, u64, Said)| n_false(limit, &[&both[..], &[last]].concat());
    assert_eq!(n_false(limit, &[both[0].clone(), (2, 3, Refused)]), 1);
    assert_eq!((with((4, 5, Refused)), with((90, 95, Refused))), (0, 0));
    assert_eq!(with((150, 151, Refused)), 1, "one has flowed in");
}

#[test]
fn tokens_above_a_window_are_counted() {
    let (begun, limit) = (Instant::now(), Limit::Tokens { burst: 2.0, rate: 10.0 });
    let admitted = |n: u64, every: u64| -> Vec<_> {
        (0..n).map(|nth| outcome(begun, nth * every, nth * every + 1, Said::Admitted)).collect()
    };
    assert_eq!(limit.tokens_above(&admitted(2, 1)), 0);
    assert_eq!(limit.tokens_above(&admitted(5, 1)), 2, "less than one flowed in");
    assert_eq!(limit.tokens_above(&admitted(20, 100)), 0);
}
