//! A bulkhead by itself: who gets a place, who waits, and that each is given back once.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use cofferdam_bulkhead::{Bulkhead, Bulkheads, Denied, NameTaken, Pool};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, advance, sleep, timeout};

use crate::{Log, ms};

#[tokio::test(start_paused = true)]
async fn a_call_too_many_is_denied_at_once_and_the_denial_names_the_bulkhead() {
    // P30
    let payment = Bulkhead::new("payment", 2).queue(2, ms(1000));
    let calls: Vec<_> = (0..4).map(|_| tokio::spawn(hold(payment.clone(), ms(300)))).collect();
    sleep(ms(1)).await;
    let start = Instant::now();
    let denied = payment.acquire().await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(denied.to_string(), "bulkhead payment is full: 2 of 2 places in use, 2 of 2 queued");
    assert!(join_all(calls).await.into_iter().all(|call| call.unwrap().is_ok()));
    // P32, P34
    let seen = payment.snapshot();
    assert_eq!((seen.active, seen.queued, seen.granted, seen.refused), (0, 0, 4, 1));
}

#[test]
fn a_denial_is_logged_with_what_fills_the_bulkhead() {
    // P30
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
    tracing::subscriber::with_default(subscriber.with_writer(log.clone()).finish(), || {
        let payment = Bulkhead::new("payment", 1);
        let _place = payment.try_acquire().unwrap();
        assert!(payment.try_acquire().is_err());
        payment.close();
        assert!(payment.try_acquire().is_err());
        assert!(Pool::new("inventory", 1, 0).unwrap().submit(|| ()).is_ok());
    });
    let text = log.text();
    assert!(
        text.contains("bulkhead is full bulkhead=\"payment\" active=1 limit=1 queued=0 queue=0"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "nothing else is worth a line: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_zero_hands_off_and_a_longest_wait_ends() {
    // P29, P7
    let none = Bulkhead::new("none", 1);
    let place = none.acquire().await.unwrap();
    assert!(matches!(none.acquire().await, Err(Denied::Full { waited: Duration::ZERO, .. })));
    let brief = none.clone().queue(1, ms(50));
    let start = Instant::now();
    assert!(matches!(brief.acquire().await, Err(Denied::Full { waited, .. }) if waited >= ms(50)));
    assert!(start.elapsed() <= ms(51), "{:?}", start.elapsed());
    assert_eq!(none.snapshot().timeouts, 1, "clones are the same bulkhead");
    let patience = none.acquire_within(ms(10));
    assert!(patience.await.is_err() && start.elapsed() <= ms(62), "the shorter of both");
    drop(place);
    assert!(none.try_acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_in_turn_and_overtaken_by_nobody() {
    let bulkhead = Bulkhead::new("one", 1).queue(3, ms(1000));
    let place = bulkhead.try_acquire().unwrap();
    let waiting: Vec<_> = (1..=3).map(|n| tokio::spawn(hold(bulkhead.clone(), ms(10 * n)))).collect();
    sleep(ms(1)).await;
    drop(place);
    // The first has been given the place, though it did not run yet.
    assert!(bulkhead.try_acquire().is_err());
    let ended: Vec<_> = join_all(waiting).await.into_iter().map(|call| call.unwrap().unwrap()).collect();
    assert!(ended[1] >= ended[0] + ms(19) && ended[2] >= ended[1] + ms(29), "one after the other");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_released_once_whether_its_call_ends_fails_panics_or_is_dropped() {
    let bulkhead = Bulkhead::new("payment", 1);
    assert_eq!(bulkhead.run(async { Err::<(), _>("failed") }).await, Ok(Err("failed")));
    assert_eq!(bulkhead.snapshot().active, 0);
    let panicking = std::panic::AssertUnwindSafe(bulkhead.run(async { panic!("in the call") }));
    assert!(panicking.catch_unwind().await.is_err());
    assert_eq!(bulkhead.snapshot().active, 0);
    assert!(timeout(ms(10), bulkhead.run(pending::<()>())).await.is_err());
    assert_eq!(bulkhead.snapshot().active, 0);
    let running = tokio::spawn(hold(bulkhead.clone(), ms(10_000)));
    sleep(ms(1)).await;
    assert_eq!(bulkhead.snapshot().active, 1);
    running.abort();
    assert!(running.await.is_err());
    assert_eq!(bulkhead.snapshot().active, 0);
    assert!(bulkhead.try_acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_has_gone_before_its_place_is_free() {
    struct Work(Bulkhead, Arc<AtomicBool>);
    impl Drop for Work {
        fn drop(&mut self) {
            self.1.store(self.0.try_acquire().is_err(), Relaxed);
        }
    }
    let (bulkhead, was_held) = (Bulkhead::new("payment", 1), Arc::new(AtomicBool::new(false)));
    let work = Work(bulkhead.clone(), Arc::clone(&was_held));
    let call = bulkhead.run(async move {
        let _work = work;
        pending::<()>().await;
    });
    assert!(timeout(ms(10), call).await.is_err());
    assert!(was_held.load(Relaxed));
    assert!(bulkhead.try_acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn closing_cancels_who_waits_and_later_calls_hear_that_it_is_shut_down() {
    // P31
    let bulkhead = Bulkhead::new("payment", 1).queue(2, ms(1000));
    let held = bulkhead.try_acquire().unwrap();
    let waiting = tokio::spawn(hold(bulkhead.clone(), ms(10)));
    sleep(ms(1)).await;
    bulkhead.close();
    assert_eq!(waiting.await.unwrap().unwrap_err().to_string(), "bulkhead payment is shut down");
    assert_eq!(bulkhead.acquire().await.unwrap_err(), Denied::ShutDown("payment".into()));
    assert_eq!(bulkhead.try_acquire().unwrap_err(), Denied::ShutDown("payment".into()));
    let seen = bulkhead.snapshot();
    assert_eq!((seen.active, seen.queued, seen.refused, seen.closed), (1, 0, 0, true));
    drop(held);
    assert_eq!(bulkhead.snapshot().active, 0);
}

#[tokio::test(start_paused = true)]
async fn named_bulkheads_hold_their_own_limits_and_all_other_names_share_one() {
    // P33; P39: a name that is not known makes no limiter.
    let named = [("payment", 10), ("user", 50), ("product", 100)];
    let default = Bulkhead::new("default", 20);
    let all = Bulkheads::new(default, named.map(|(name, limit)| Bulkhead::new(name, limit))).unwrap();
    for (name, limit) in named.into_iter().chain([("unknown", 20), ("another", 0)]) {
        let places: Vec<_> = (0..).map_while(|_| all.get(name).try_acquire().ok()).collect();
        assert_eq!(places.len() as u32, limit, "{name}");
        // The default's are kept while the other name asks.
        std::mem::forget(places);
    }
    let seen: Vec<_> = all.snapshots().into_iter().map(|seen| (seen.active, seen.refused)).collect();
    assert_eq!(seen, [(10, 1), (50, 1), (100, 1), (20, 2)], "the ones that work, and not copies");
    let twice = Bulkheads::new(Bulkhead::new("a", 1), [Bulkhead::new("a", 2)]);
    assert_eq!(twice.unwrap_err(), NameTaken("a".to_owned()));
    all.close();
    assert!(all.snapshots().iter().all(|seen| seen.closed));
}

#[tokio::test(start_paused = true)]
async fn after_any_order_of_waits_timeouts_and_cancels_nothing_is_held() {
    // P39: what comes free is given back once.
    let bulkhead = Bulkhead::new("races", 5).queue(20, ms(5));
    let in_flight = Arc::new(AtomicU32::new(0));
    let mut random = StdRng::seed_from_u64(5);
    let mut calls = Vec::new();
    for _ in 0..5_000 {
        let (hold, patience) = (ms(random.random_range(0..6)), ms(random.random_range(1..12)));
        let (bulkhead, in_flight) = (bulkhead.clone(), Arc::clone(&in_flight));
        calls.push(tokio::spawn(async move {
            let call = bulkhead.run(async {
                struct Leave<'a>(&'a AtomicU32);
                impl Drop for Leave<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Relaxed);
                    }
                }
                assert!(in_flight.fetch_add(1, Relaxed) < 5, "above the limit");
                let _leave = Leave(&in_flight);
                sleep(hold).await;
            });
            timeout(patience, call).await.is_ok_and(|outcome| outcome.is_ok())
        }));
        if random.random_range(0..4) == 0 {
            advance(ms(1)).await;
        }
        if random.random_range(0..8) == 0 {
            calls.last().unwrap().abort();
        }
    }
    let outcomes = join_all(calls).await;
    assert!(!outcomes.iter().any(|outcome| outcome.as_ref().is_err_and(|error| error.is_panic())));
    let served = outcomes.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
    let seen = bulkhead.snapshot();
    assert!(served > 500 && seen.timeouts > 0 && seen.refused > seen.timeouts, "{seen:?}, {served} served");
    assert_eq!((seen.active, seen.queued, in_flight.load(Relaxed)), (0, 0, 0));
}

/// When its call ended.
async fn hold(bulkhead: Bulkhead, time: Duration) -> Result<Instant, Denied> {
    // A sleep begins when it is made.
    bulkhead.run(async { sleep(time).await }).await.map(|()| Instant::now())
}
