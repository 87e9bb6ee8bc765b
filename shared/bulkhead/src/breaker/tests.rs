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
    assert_eq!(
        breaker.counts(),
        BreakerCounts { state: BreakerState::Closed, for_one: false, opened: 2, refused: 4 }
    );
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

fn fail_for(breaker: &Breaker, caller: Caller, n: u32) {
    for _ in 0..n {
        let _ = breaker.pass_for(caller).unwrap().failed();
    }
}

const BAD: Caller = 1;
const GOOD: Caller = 2;

#[tokio::test(start_paused = true)]
async fn one_caller_among_others_that_are_well_opens_it_for_nobody() {
    let breaker = Breaker::new(BreakerPolicy::default());
    breaker.pass_for(GOOD).unwrap().succeeded();
    fail_for(&breaker, BAD, 1000);
    assert_eq!(state(&breaker), BreakerState::Closed);
    assert!(breaker.pass_for(BAD).is_ok() && breaker.pass_for(GOOD).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_asks_alone_opens_it_for_itself_alone() {
    let breaker = Breaker::new(BreakerPolicy::default());
    fail_for(&breaker, BAD, 5);
    assert_eq!(breaker.pass_for(BAD).unwrap_err(), Open(30 * SECOND));
    assert!(breaker.counts().for_one && state(&breaker) == BreakerState::Open);
    for _ in 0..10 {
        breaker.pass_for(GOOD).unwrap().succeeded();
    }
    advance(30 * SECOND).await;
    let tries = breaker.pass_for(BAD).unwrap();
    assert!(tries.is_trial() && breaker.pass_for(BAD).is_err() && breaker.pass_for(GOOD).is_ok());
    tries.failed();
    assert_eq!(breaker.pass_for(BAD).unwrap_err(), Open(30 * SECOND));
    advance(30 * SECOND).await;
    drop(breaker.pass_for(BAD).unwrap());
    assert!(breaker.pass_for(BAD).unwrap().succeeded());
    assert_eq!((state(&breaker), breaker.counts().opened), (BreakerState::Closed, 1));
}

#[tokio::test(start_paused = true)]
async fn what_a_second_caller_meets_as_well_opens_it_for_all() {
    let breaker = Breaker::new(BreakerPolicy::default());
    fail_for(&breaker, BAD, 5);
    fail_for(&breaker, GOOD, 1);
    assert!(breaker.pass_for(3).is_err() && !breaker.counts().for_one);
    // In any order, and however many others are well.
    let breaker = Breaker::new(BreakerPolicy::default());
    for caller in 10..15 {
        fail_for(&breaker, caller, 1);
        if caller < 14 {
            assert_eq!(state(&breaker), BreakerState::Closed);
            breaker.pass_for(30).unwrap().succeeded();
        }
    }
    assert_eq!(state(&breaker), BreakerState::Open);
    // Two that are put apart one after the other are two, even where their outcomes share no window.
    let breaker = Breaker::new(BreakerPolicy::default());
    fail_for(&breaker, BAD, 5);
    advance(15 * SECOND).await;
    fail_for(&breaker, GOOD, 5);
    assert!(breaker.pass_for(3).is_err());
}

#[tokio::test(start_paused = true)]
async fn one_callers_trial_neither_keeps_it_open_nor_keeps_others_from_trying() {
    let breaker = Breaker::new(BreakerPolicy::default());
    let open = || {
        fail_for(&breaker, BAD, 5);
        fail_for(&breaker, GOOD, 1);
    };
    open();
    advance(30 * SECOND).await;
    let stalls = breaker.pass_for(BAD).unwrap();
    assert!(breaker.pass_for(BAD).is_err(), "one of its own at a time");
    let tries = breaker.pass_for(GOOD).unwrap();
    assert!(breaker.pass_for(3).is_err(), "two at a time, whoever they are");
    drop(stalls);
    breaker.pass_for(BAD).unwrap().failed();
    assert_eq!(breaker.pass_for(BAD).unwrap_err(), Open(30 * SECOND));
    assert!(tries.succeeded());
    assert_eq!(state(&breaker), BreakerState::Closed);
    // It tries in vain for as long as it asks alone; where a second one fails, it stays open for all.
    open();
    for _ in 0..3 {
        advance(30 * SECOND).await;
        breaker.pass_for(BAD).unwrap().failed();
        assert_eq!(breaker.pass_for(BAD).unwrap_err(), Open(30 * SECOND));
    }
    breaker.pass_for(GOOD).unwrap().failed();
    assert_eq!(breaker.pass_for(3).unwrap_err(), Open(30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_many_callers_that_fail_are_not_one() {
    let breaker = Breaker::new(BreakerPolicy { failures: 1000, ..BreakerPolicy::default() });
    for caller in 0..1000 {
        assert_eq!(state(&breaker), BreakerState::Closed);
        fail_for(&breaker, caller, 1);
    }
    assert_eq!(state(&breaker), BreakerState::Open);
    let breaker = Breaker::new(BreakerPolicy::default());
    for caller in 0..100_000 {
        breaker.pass_for(100 + caller % 500).unwrap().succeeded();
    }
    let Now::Closed { window, .. } = &breaker.0.state.lock().now else { panic!("it is closed") };
    assert_eq!(window.n_callers(), 16);
}
