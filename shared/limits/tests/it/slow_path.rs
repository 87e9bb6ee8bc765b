//! What the engine does where the store has to be asked: the budget, the way without it, and that nothing leaks. The runtime's
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
    ManualClock, Outcome, PendingAdmission, Refusal, RouteKey, Standing, StoreError, StoreMetrics, Wait,
};
use cofferdam_model::{Level, Limited, OnStoreFailure, TenantId};

/// Never decides: it is gone, and falls back to a store of this process, unless the demand says otherwise.
struct Gone(Embedded);

impl LimitStore for Gone {
    fn admit(&self, _: &Demand<'_>, _: &mut Grant) -> Answer {
        Answer::Ask(Box::pin(async { Err(StoreError::Gone) }))
    }

    fn fall_back(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        match demand.on_store_failure {
            OnStoreFailure::Local => self.0.fall_back(demand, grant),
            OnStoreFailure::Open => Ok(()),
            OnStoreFailure::Closed => Err(Refusal::store_away(Standing::default())),
        }
    }

    fn look(&self, _: &TenantId, _: RouteKey, _: &LevelPolicy) -> Standing {
        Standing::default()
    }

    fn metrics(&self) -> StoreMetrics {
        StoreMetrics::default()
    }
}

fn gone() -> Arc<Gone> {
    Arc::new(Gone(Embedded::new(ManualClock::at(START_US).into())))
}

fn plan() -> Levels {
    levels(&[
        LevelPolicy { max_in_flight: Some(1), ..paced(Level::Fleet, "5/s", 10) },
        LevelPolicy { max_in_flight: Some(1), ..paced(Level::Tenant, "5/s", 10) },
    ])
}

#[track_caller]
fn pending(limits: &Limits, cost: u32) -> PendingAdmission {
    match limits.admit(&Demand::new(&id("acme"), cost, &plan())) {
        Admission::Pending(pending) => pending,
        other => panic!("not pending: {other:?}"),
    }
}

/// What the store, in the end, holds of the tenant: tokens that are left, and what is in flight.
fn standing(store: &Asked) -> (u64, u32) {
    store.settle();
    let standing = store.look(&id("acme"), RouteKey::default(), plan().get(Level::Tenant).unwrap());
    (standing.bucket.unwrap().remaining(), standing.in_flight)
}

#[test]
fn no_answer_within_the_budget_is_decided_without_the_store() {
    let limits = Limits::new(Asked::new(ManualClock::at(START_US), 1), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let start = tokio::time::Instant::now();
        let permit = pending(&limits, 1).await.unwrap();
        // The timer may round up to its next millisecond.
        assert!((5..=6).contains(&start.elapsed().as_millis()));
        assert_eq!(permit.standing().bucket.unwrap().remaining(), 9, "the same policies hold without it");
        let refusal = pending(&limits, 1).await.unwrap_err();
        assert_eq!(refusal.limited, Limited::Concurrency);
    });
    let metrics = limits.metrics();
    assert_eq!((metrics.store_timeouts, metrics.store_errors, metrics.fallback_admitted), (2, 0, 1));
    // Who fell back has waited as well: twice for 5 ms, or up to the timer's next millisecond.
    assert_eq!(metrics.waits.count(), 2);
    assert!((10..=12).contains(&metrics.waits.sum.as_millis()), "{:?}", metrics.waits.sum);
}

#[test]
fn an_error_is_decided_without_the_store_at_once() {
    let limits = Limits::new(gone(), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let start = tokio::time::Instant::now();
        pending(&limits, 1).await.unwrap().release(Outcome::Success);
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
    let metrics = limits.metrics();
    assert_eq!((metrics.store_timeouts, metrics.store_errors, metrics.fallback_admitted), (0, 1, 1));
}

#[test]
fn a_refusal_of_the_store_is_final() {
    let limits = Limits::new(Asked::new(ManualClock::at(START_US), 0), Duration::from_secs(600));
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
    let limits = Limits::new(store.clone(), DEFAULT_BUDGET);
    let permit = runtime(true).block_on(pending(&limits, 4)).unwrap();
    assert_eq!(standing(&store), (10, 0), "it was admitted without it, so the store's own grant is nobody's");
    drop(permit);
    assert_eq!(standing(&store), (10, 0));
}

#[test]
fn a_pending_admission_that_is_dropped_leaves_nothing_taken() {
    let store = Asked::new(ManualClock::at(START_US), 0);
    let limits = Limits::new(store.clone(), DEFAULT_BUDGET);
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
    let limits = Limits::new(store.clone(), DEFAULT_BUDGET);
    runtime(true).block_on(async {
        let mut waiting = pending(&limits, 4);
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut waiting).poll(cx).is_pending()));
        assert!(polled.await);
    });
    assert_eq!(standing(&store), (10, 0));
}

#[test]
fn a_demand_says_whether_it_passes_or_not_where_the_store_is_gone() {
    // P49
    let limits = Limits::new(gone(), DEFAULT_BUDGET);
    let (acme, plan) = (id("acme"), plan());
    let decide = |on_store_failure| {
        let demand = Demand { on_store_failure, ..Demand::new(&acme, 1, &plan) };
        let Admission::Pending(pending) = limits.admit(&demand) else { panic!("the store is gone") };
        runtime(true).block_on(pending)
    };
    let (local, open) = (decide(OnStoreFailure::Local), decide(OnStoreFailure::Open));
    assert!(local.is_ok() && open.is_ok());
    assert_eq!(decide(OnStoreFailure::Local).unwrap_err().limited, Limited::Concurrency);
    assert!(decide(OnStoreFailure::Open).is_ok());
    let refusal = decide(OnStoreFailure::Closed).unwrap_err();
    assert_eq!((refusal.limited, refusal.wait), (Limited::Store, Wait::Unknown));
    assert_eq!(limits.metrics().refused(Level::Fleet, Limited::Store), 1);
}
