//! What the engine does where the store has to be asked: the budget, the fallback, and that nothing leaks. The runtime's
//! clock is paused: it jumps as soon as there is nothing left to do but wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::contract::{START_US, id, levels, paced, runtime};
use crate::stores::Asked;
use cofferdam_limits::{
    Admission, Answer, DEFAULT_BUDGET, Demand, Embedded, Grant, LevelPolicy, Levels, LimitStore, Limits,
    ManualClock, Outcome, PendingAdmission, Standing, StoreError, StoreMetrics,
};
use cofferdam_model::{Level, Limited, TenantId};

/// Never decides: it is gone.
struct Gone;

impl LimitStore for Gone {
    fn admit(&self, _: &Demand<'_>, _: &mut Grant) -> Answer {
        Answer::Ask(Box::pin(async { Err(StoreError::Gone) }))
    }

    fn look(&self, _: &TenantId, _: &LevelPolicy) -> Standing {
        Standing::default()
    }

    fn metrics(&self) -> StoreMetrics {
        StoreMetrics::default()
    }
}

fn engine(store: Arc<dyn LimitStore>, budget: Duration) -> Limits {
    let fallback = Embedded::new(ManualClock::at(START_US).into());
    Limits::new(store, Arc::new(fallback), budget)
}

fn plan() -> Levels {
    levels(&[
        LevelPolicy { max_in_flight: Some(1), ..paced(Level::Fleet, "5/s", 10) },
        LevelPolicy { max_in_flight: Some(1), ..paced(Level::Tenant, "5/s", 10) },
    ])
}

#[track_caller]
fn pending(limits: &Limits, cost: u32) -> PendingAdmission {
    match limits.admit(&Demand { tenant: &id("acme"), cost, levels: &plan() }) {
        Admission::Pending(pending) => pending,
        other => panic!("not pending: {other:?}"),
    }
}

/// What the store, in the end, holds of the tenant: tokens that are left, and what is in flight.
fn standing(store: &Asked) -> (u64, u32) {
    store.settle();
    let standing = store.look(&id("acme"), plan().get(Level::Tenant).unwrap());
    (standing.bucket.unwrap().remaining(), standing.in_flight)
}

#[test]
fn no_answer_within_the_budget_is_decided_by_the_fallback() {
    let limits = engine(Asked::new(ManualClock::at(START_US), 1), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let start = tokio::time::Instant::now();
        let permit = pending(&limits, 1).await.unwrap();
        // The timer may round up to its next millisecond.
        assert!((5..=6).contains(&start.elapsed().as_millis()));
        assert_eq!(
            permit.standing().bucket.unwrap().remaining(),
            9,
            "the fallback holds to the same policies"
        );
        let refusal = pending(&limits, 1).await.unwrap_err();
        assert_eq!(refusal.limited, Limited::Concurrency);
    });
    let metrics = limits.metrics();
    assert_eq!((metrics.store_timeouts, metrics.store_errors, metrics.fallback_admitted), (2, 0, 1));
}

#[test]
fn an_error_is_decided_by_the_fallback_at_once() {
    let limits = engine(Arc::new(Gone), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let start = tokio::time::Instant::now();
        pending(&limits, 1).await.unwrap().release(Outcome::Success);
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
    let metrics = limits.metrics();
    assert_eq!((metrics.store_timeouts, metrics.store_errors, metrics.fallback_admitted), (0, 1, 1));
}

#[test]
fn a_refusal_of_the_store_never_reaches_the_fallback() {
    let limits = engine(Asked::new(ManualClock::at(START_US), 0), Duration::from_secs(600));
    let runtime = runtime(false);
    let _held = runtime.block_on(pending(&limits, 1)).unwrap();
    let refusal = runtime.block_on(pending(&limits, 1)).unwrap_err();
    assert_eq!(refusal.limited, Limited::Concurrency);
    let metrics = limits.metrics();
    assert_eq!((metrics.store_timeouts, metrics.store_errors, metrics.fallback_admitted), (0, 0, 0));
    assert_eq!(metrics.refused(Level::Tenant, Limited::Concurrency), 1);
}

#[test]
fn a_grant_after_the_budget_is_given_back() {
    let store = Asked::new(ManualClock::at(START_US), 1);
    let limits = engine(store.clone(), DEFAULT_BUDGET);
    let permit = runtime(true).block_on(pending(&limits, 4)).unwrap();
    assert_eq!(standing(&store), (10, 0), "the fallback admitted, so the store's own grant is nobody's");
    drop(permit);
    assert_eq!(standing(&store), (10, 0));
}

#[test]
fn a_pending_admission_that_is_dropped_leaves_nothing_taken() {
    let store = Asked::new(ManualClock::at(START_US), 0);
    let limits = engine(store.clone(), DEFAULT_BUDGET);
    // Before it was ever polled, and before or after the answer came.
    drop(pending(&limits, 4));
    assert_eq!(standing(&store), (10, 0));
    let answered = pending(&limits, 4);
    assert_eq!(standing(&store), (6, 1), "it is granted, and waits to be fetched");
    drop(answered);
    assert_eq!(standing(&store), (10, 0));
}

#[test]
fn a_pending_admission_that_is_dropped_while_it_waits_leaves_nothing_taken() {
    let store = Asked::new(ManualClock::at(START_US), 1);
    let limits = engine(store.clone(), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let mut waiting = pending(&limits, 4);
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut waiting).poll(cx).is_pending()));
        assert!(polled.await);
    });
    assert_eq!(standing(&store), (10, 0));
}
