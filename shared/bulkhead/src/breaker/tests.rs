//! When a breaker opens, who tries then, and what closes it.

use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn fail(breaker: &Breaker, n: u32) {
    for _ in 0..n {
        let _ = breaker.pass().unwrap().failed();
    }
}

fn state(breaker: &Breaker) -> BreakerState {
    breaker.counts().state
}

#[tokio::test(start_paused = true)]
async fn five_failures_open_it_and_after_thirty_seconds_one_tries() {
    // P35
    let breaker = Breaker::new(BreakerPolicy::default());
    fail(&breaker, 4);
    assert_eq!(state(&breaker), BreakerState::Closed);
    fail(&breaker, 1);
    assert_eq!(state(&breaker), BreakerState::Open);
    assert_eq!(breaker.pass().unwrap_err(), Open(30 * SECOND));
    advance(29 * SECOND).await;
    assert_eq!(breaker.pass().unwrap_err(), Open(SECOND));
    advance(SECOND).await;
    // P39: half-open does not admit everybody.
    let probe = breaker.pass().unwrap();
    assert_eq!(breaker.pass().unwrap_err(), Open(Duration::ZERO));
    probe.failed();
    assert_eq!(breaker.pass().unwrap_err(), Open(30 * SECOND));
    advance(30 * SECOND).await;
    breaker.pass().unwrap().succeeded();
    assert_eq!(state(&breaker), BreakerState::Closed);
    fail(&breaker, 4);
    assert_eq!(breaker.counts(), BreakerCounts { state: BreakerState::Closed, opened: 2, refused: 4 });
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_is_no_failure_and_frees_its_turn_to_try() {
    // P15
    let breaker = Breaker::new(BreakerPolicy::default());
    for _ in 0..100 {
        drop(breaker.pass().unwrap());
    }
    assert_eq!(state(&breaker), BreakerState::Closed);
    fail(&breaker, 5);
    advance(30 * SECOND).await;
    drop(breaker.pass().unwrap());
    breaker.pass().unwrap().succeeded();
    assert_eq!(state(&breaker), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_few_failures_among_many_calls_do_not_open_it_and_old_ones_are_forgotten() {
    let breaker = Breaker::new(BreakerPolicy::default());
    for _ in 0..10 {
        breaker.pass().unwrap().succeeded();
    }
    fail(&breaker, 9);
    assert_eq!(state(&breaker), BreakerState::Closed, "9 of 19");
    // All that succeeded lies further back than ten seconds by then, and all that failed.
    advance(11 * SECOND).await;
    fail(&breaker, 4);
    assert_eq!(state(&breaker), BreakerState::Closed);
    advance(9 * SECOND).await;
    fail(&breaker, 1);
    assert_eq!(state(&breaker), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_from_before_it_opened_says_nothing_of_now() {
    let policy = BreakerPolicy { probes: 2, ..BreakerPolicy::default() };
    let breaker = Breaker::new(policy);
    let (late, later) = (breaker.pass().unwrap(), breaker.pass().unwrap());
    fail(&breaker, 5);
    advance(30 * SECOND).await;
    late.failed();
    let (one, two) = (breaker.pass().unwrap(), breaker.pass().unwrap());
    assert!(breaker.pass().is_err(), "two may try");
    later.failed();
    one.succeeded();
    assert_eq!(state(&breaker), BreakerState::HalfOpen);
    two.succeeded();
    assert_eq!(state(&breaker), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_to_stay_open_for_ever_does() {
    let breaker = Breaker::new(BreakerPolicy { open_for: Duration::MAX, ..BreakerPolicy::default() });
    fail(&breaker, 5);
    advance(1000 * 86_400 * SECOND).await;
    assert_eq!(state(&breaker), BreakerState::Open);
}
