//! Pools: threads that are reserved, who gets one, and what crosses over to them.

use std::cell::Cell;
use std::future::pending;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, PoisonError, mpsc};
use std::thread;

use cofferdam_bulkhead::{Denied, Pool, PoolError, Running};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Log;

/// Calls that wait until they are let go.
struct Gate {
    open: mpsc::Sender<()>,
    shut: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Gate {
    fn new() -> Self {
        let (open, shut) = mpsc::channel();
        Self { open, shut: Arc::new(Mutex::new(shut)) }
    }

    fn call(&self) -> impl FnOnce() + Send + use<> {
        let shut = Arc::clone(&self.shut);
        move || {
            // Nothing is ever sent: it ends when the gate does.
            shut.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap_err();
        }
    }

    fn open(self) {
        drop(self.open);
    }

    fn submit(&self, pool: &Pool) -> Result<Running<()>, Denied> {
        pool.submit(self.call())
    }
}

#[tokio::test]
async fn own_threads_refuse_six_of_ten_payments_and_no_inventory_call() {
    // P28, P30, P32
    let (payment, inventory) = (Pool::new("payment", 2, 2).unwrap(), Pool::new("inventory", 2, 2).unwrap());
    let gate = Gate::new();
    let (taken, denied): (Vec<_>, Vec<_>) = (0..10).map(|_| gate.submit(&payment)).partition(Result::is_ok);
    assert_eq!((taken.len(), denied.len()), (4, 6));
    for denied in denied {
        let denied = denied.unwrap_err().to_string();
        assert_eq!(denied, "bulkhead payment is full: 2 of 2 places in use, 2 of 2 queued");
    }
    for _ in 0..3 {
        assert_eq!(inventory.run(|| "reserved").await.unwrap(), "reserved");
    }
    let seen = payment.snapshot();
    assert_eq!((seen.active, seen.queued, seen.refused), (2, 2, 6));
    gate.open();
    for call in taken {
        call.unwrap().await.unwrap();
    }
    assert_eq!((payment.snapshot().active, payment.snapshot().granted), (0, 4));
    assert_eq!(inventory.snapshot().refused, 0);
}

#[tokio::test]
async fn in_one_pool_four_payments_refuse_the_inventory_call() {
    // P27
    let (shared, gate) = (Pool::new("shared", 2, 2).unwrap(), Gate::new());
    let payments: Vec<_> = (0..4).map(|_| gate.submit(&shared).unwrap()).collect();
    assert!(matches!(shared.run(|| "reserved").await, Err(PoolError::Denied(Denied::Full { .. }))));
    gate.open();
    for payment in payments {
        payment.await.unwrap();
    }
    assert_eq!(shared.run(|| "reserved").await.unwrap(), "reserved");
}

#[tokio::test]
async fn a_queue_of_zero_hands_off_to_a_thread_that_is_idle_or_refuses() {
    // P29: no matter how long a thread takes to wake, or to come back.
    let pool = Pool::new("payment", 2, 0).unwrap();
    for n in 0..200 {
        assert_eq!(pool.run(move || n).await.unwrap(), n);
    }
    let gate = Gate::new();
    let calls = [gate.submit(&pool).unwrap(), gate.submit(&pool).unwrap()];
    assert!(gate.submit(&pool).is_err());
    assert_eq!(pool.snapshot().queued, 0);
    gate.open();
    for call in calls {
        call.await.unwrap();
    }
    assert!(pool.run(|| ()).await.is_ok());
}

#[tokio::test]
async fn a_panic_is_told_to_its_caller_and_the_threads_go_on() {
    let pool = Pool::new("payment", 1, 0).unwrap();
    for n in 0..3 {
        let failed = pool.run(move || assert_eq!(n, 9, "call {n}")).await.unwrap_err();
        let PoolError::Panicked { message, pool } = failed else { panic!("{failed}") };
        assert!(message.contains(&format!("call {n}")) && &*pool == "payment", "{message}");
    }
    assert_eq!(pool.run(|| thread::current().name().map(str::to_owned)).await.unwrap().unwrap(), "payment-1");
    assert_eq!((pool.snapshot().panicked, pool.snapshot().active), (3, 0));
}

#[tokio::test]
async fn an_outcome_that_panics_when_nobody_wants_it_costs_no_thread() {
    struct Sore;
    impl Drop for Sore {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let (pool, gate) = (Pool::new("payment", 1, 1).unwrap(), Gate::new());
    let (begun, has_begun) = mpsc::channel();
    let wait = gate.call();
    let call = pool.submit(move || {
        begun.send(()).unwrap();
        wait();
        Sore
    });
    has_begun.recv().unwrap();
    drop(call);
    gate.open();
    assert_eq!(pool.run(|| 1).await.unwrap(), 1);
}

#[tokio::test]
async fn closing_cancels_the_queued_finishes_what_runs_and_refuses_nobody() {
    // P31
    let (pool, gate) = (Pool::new("payment", 1, 2).unwrap(), Gate::new());
    let (begun, has_begun) = mpsc::channel();
    let wait = gate.call();
    let running = pool
        .submit(move || {
            begun.send(()).unwrap();
            wait();
        })
        .unwrap();
    has_begun.recv().unwrap();
    let queued = pool.submit(|| ()).unwrap();
    pool.close();
    assert_eq!(queued.await.unwrap_err().to_string(), "bulkhead payment is shut down");
    let late = pool.run(|| ()).await.unwrap_err();
    assert_eq!(late, PoolError::Denied(Denied::ShutDown("payment".into())));
    gate.open();
    assert_eq!(running.await, Ok(()));
    let seen = pool.snapshot();
    assert_eq!((seen.refused, seen.active, seen.queued, seen.closed), (0, 0, 0, true));
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_call_out_of_the_queue_but_not_off_its_thread() {
    let (pool, gate) = (Pool::new("payment", 1, 1).unwrap(), Gate::new());
    let (begun, has_begun) = mpsc::channel();
    let wait = gate.call();
    let running = pool.submit(move || {
        begun.send(()).unwrap();
        wait();
    });
    has_begun.recv().unwrap();
    let token = Arc::new(());
    let kept = Arc::clone(&token);
    let queued = pool.submit(move || drop(kept)).unwrap();
    assert!(pool.submit(|| ()).is_err());
    drop(queued);
    assert_eq!((pool.snapshot().queued, Arc::strong_count(&token)), (0, 1));
    // Whoever is not waited for is still at work.
    drop(running);
    assert_eq!(pool.snapshot().active, 1);
    let next = pool.submit(|| "served").unwrap();
    gate.open();
    assert_eq!(next.await.unwrap(), "served");
}

#[tokio::test]
async fn its_threads_end_with_the_last_handle() {
    let pool = Pool::new("payment", 2, 0).unwrap();
    let alive = Arc::new(());
    thread_local! { static HELD: Cell<Option<Arc<()>>> = const { Cell::new(None) } }
    // Both threads at once, so that each has its own.
    let meet = Arc::new(Barrier::new(2));
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let (held, meet) = (Arc::clone(&alive), Arc::clone(&meet));
            let call = move || {
                HELD.set(Some(held));
                meet.wait();
            };
            pool.submit(call).unwrap()
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let other = pool.clone();
    drop(pool);
    other.run(|| ()).await.unwrap();
    assert_eq!(Arc::strong_count(&alive), 3);
    drop(other);
    while Arc::strong_count(&alive) > 1 {
        thread::yield_now();
    }
}

#[test]
fn after_any_order_of_calls_and_of_callers_that_go_away_nothing_is_held() {
    // P39: no more at once than there are threads, and each call either runs or is taken back.
    let pool = Pool::new("races", 2, 3).unwrap();
    let (at_once, ran, counted) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    thread::scope(|scope| {
        for caller in 0..4 {
            let (pool, at_once, ran, counted) = (&pool, &at_once, &ran, &counted);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut random = StdRng::seed_from_u64(caller);
                for _ in 0..1_000 {
                    let (at_once, ran) = (Arc::clone(at_once), Arc::clone(ran));
                    let taken = pool.submit(move || {
                        assert!(at_once.fetch_add(1, Relaxed) < 2, "more than there are threads");
                        thread::yield_now();
                        at_once.fetch_sub(1, Relaxed);
                        ran.fetch_add(1, Relaxed);
                    });
                    let Ok(running) = taken else { continue };
                    if random.random_bool(0.5) {
                        runtime.block_on(running).unwrap();
                        counted.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    while pool.snapshot().active > 0 {
        thread::yield_now();
    }
    let seen = pool.snapshot();
    let (ran, counted) = (ran.load(Relaxed), counted.load(Relaxed));
    assert!(
        ran >= counted && counted > 0 && seen.granted >= ran,
        "{seen:?}, {ran} ran, {counted} waited for"
    );
    assert_eq!((seen.queued, seen.panicked, at_once.load(Relaxed)), (0, 0, 0));
    assert_eq!(seen.granted + seen.refused, 4_000);
}

#[tokio::test]
async fn the_callers_span_and_trace_context_cross_over_to_threads_and_to_a_runtime() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    thread_local! { static TRACE: Cell<&'static str> = const { Cell::new("none") } }
    struct Restore(&'static str);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRACE.set(self.0);
        }
    }
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let pool = Pool::new("payment", 1, 0).unwrap();
    let carrying = pool.clone().carrying(|| TRACE.get(), |trace| Restore(TRACE.replace(trace)));
    let span = tracing::info_span!("checkout", order = 5);

    TRACE.set(PARENT);
    let call = span.in_scope(|| {
        carrying.submit(|| {
            tracing::info!("on a thread of {}", TRACE.get());
        })
    });
    call.unwrap().await.unwrap();
    assert!(
        log.text().contains(&format!("checkout{{order=5}}: library::pool: on a thread of {PARENT}")),
        "{}",
        log.text()
    );
    assert_eq!(pool.run(|| TRACE.get()).await.unwrap(), "none", "and nothing stays behind");

    tokio::task_local! { static TASK: &'static str }
    let runtime = Pool::runtime("reports", 1, 1).unwrap();
    let call = TASK.scope(PARENT, async {
        tokio::task::yield_now().await;
        tracing::info!("in a runtime of {}", TASK.get());
    });
    let in_span = tracing::Instrument::instrument(runtime.run(call), span);
    in_span.await.unwrap();
    assert!(
        log.text().contains(&format!("checkout{{order=5}}: library::pool: in a runtime of {PARENT}")),
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn a_runtime_of_its_own_goes_on_while_the_callers_is_blocked() {
    let reports = Pool::runtime("reports", 1, 2).unwrap();
    let (done, is_done) = mpsc::channel();
    let call = reports.run(async move { done.send(thread::current().name().map(str::to_owned)).unwrap() });
    let mut call = std::pin::pin!(call);
    assert!(futures_util::poll!(&mut call).is_pending());
    // This thread is the caller's only one.
    assert_eq!(is_done.recv().unwrap().as_deref(), Some("reports"));
    call.await.unwrap();
}

#[tokio::test]
async fn a_runtime_of_its_own_caps_contains_panics_and_is_shut_down() {
    let reports = Pool::runtime("reports", 1, 1).unwrap();
    let failed = reports.run(async { panic!("no such report") }).await;
    assert_eq!(failed.unwrap_err().to_string(), "call in pool reports panicked: no such report");
    let mut hung = Box::pin(reports.run(pending::<()>()));
    assert!(futures_util::poll!(&mut hung).is_pending());
    let denied = reports.run(async {}).await.unwrap_err();
    assert_eq!(denied.to_string(), "bulkhead reports is full: 1 of 1 places in use, 0 of 0 queued");
    // Whoever goes away ends its call; the place is free once that has ended.
    drop(hung);
    let next = reports.clone().queue(1, crate::ms(60_000));
    next.run(async {}).await.unwrap();
    reports.close();
    assert_eq!(next.run(async {}).await.unwrap_err(), PoolError::Denied(Denied::ShutDown("reports".into())));
}
