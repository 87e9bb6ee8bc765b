//! The queue: its bounds, whose turn it is, and every way in which a wait ends. Time is paused.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use cofferdam_bulkhead::{Compartments, Place, Refused};
use cofferdam_model::CellReason;
use futures_util::future::join_all;
use futures_util::poll;
use tokio::time::{Instant, advance};

use crate::support::{call, cell, class, ms, quartered, queued, reason, tenant, used};

type Wait = Pin<Box<dyn Future<Output = Result<Place, Refused>> + Send>>;

/// A request of a tenant that has joined the queue.
async fn waiter(cell: &Compartments, class: usize, name: &str) -> Wait {
    let (cell, tenant) = (cell.clone(), tenant(name));
    let mut wait: Wait = Box::pin(async move { cell.acquire(class, &tenant, None).await });
    assert!(poll!(&mut wait).is_pending());
    wait
}

async fn is_waiting(wait: &mut Wait) -> bool {
    poll!(wait).is_pending()
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_zero_is_a_hand_off() {
    // P29
    let cell = cell(1, vec![class("a", 0, 1)]);
    let start = Instant::now();
    let place = cell.acquire(0, &tenant("acme"), None).await.unwrap();
    assert_eq!(reason(cell.acquire(0, &tenant("acme"), None).await), Some(CellReason::Cell));
    drop(place);
    assert!(cell.acquire(0, &tenant("acme"), None).await.is_ok());
    assert_eq!(start.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_for_ever_does() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 2, Duration::MAX)]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let (mut first, mut second) = (waiter(&cell, 0, "acme").await, waiter(&cell, 0, "acme").await);
    advance(1000 * ms(86_400_000)).await;
    assert!(is_waiting(&mut first).await && is_waiting(&mut second).await);
    drop(place);
    drop(first.await.unwrap());
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_capped_and_its_depth_and_age_are_seen() {
    // P34; P39: unbounded queues.
    let cell = cell(1, vec![queued(class("a", 0, 1), 3, ms(1000))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let mut waits = vec![waiter(&cell, 0, "acme").await];
    advance(ms(250)).await;
    waits.push(waiter(&cell, 0, "acme").await);
    waits.push(waiter(&cell, 0, "acme").await);
    for _ in 0..1000 {
        let full = cell.acquire(0, &tenant("other"), None).await;
        assert_eq!(reason(full), Some(CellReason::Cell));
    }
    let seen = &cell.snapshot().classes[0];
    assert_eq!((seen.queued, seen.queue, seen.oldest_wait), (3, 3, ms(250)));
    assert_eq!((seen.refused_for(CellReason::Cell), seen.timeouts), (1000, 0));
    drop((waits, place));
    assert_eq!(cell.snapshot().classes[0].queued, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_max_wait_and_is_a_refusal() {
    // P7: queue briefly.
    let cell = cell(1, vec![queued(class("a", 0, 1), 1, ms(100))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let start = Instant::now();
    let refused = cell.acquire(0, &tenant("acme"), None).await.err().unwrap();
    assert_eq!(start.elapsed(), ms(100));
    assert_eq!(
        refused.to_string(),
        "cell is full for class a: 1 of 1 places in use, 0 of 1 queued, waited 100ms"
    );
    let seen = &cell.snapshot().classes[0];
    assert_eq!((seen.queued, seen.timeouts, seen.refused_for(CellReason::Cell)), (0, 1, 1));
    drop(place);
    assert_eq!(used(&cell), [0], "nothing was granted to the one that left");
}

#[tokio::test(start_paused = true)]
async fn a_wait_takes_at_most_a_quarter_of_what_is_left_to_the_deadline() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 1, ms(10_000))]);
    let _place = cell.try_acquire(0, &tenant("acme")).unwrap();
    for (left, wait) in [(4000, 1000), (400_000, 10_000), (0, 0)] {
        let start = Instant::now();
        assert!(cell.acquire(0, &tenant("acme"), Some(start + ms(left))).await.is_err());
        assert_eq!(start.elapsed(), ms(wait));
    }
}

#[tokio::test(start_paused = true)]
async fn within_a_class_places_go_in_order_of_arrival_passing_over_tenants_at_their_share() {
    let cell = quartered(8, vec![queued(class("a", 0, 8), 8, ms(1000))]);
    let mut held: Vec<_> = ["t0", "t0", "t1", "t1", "t2", "t2", "t3", "t3"]
        .map(|name| cell.try_acquire(0, &tenant(name)).unwrap())
        .into();
    let mut at_share = waiter(&cell, 0, "t3").await;
    let first = waiter(&cell, 0, "t4").await;
    let mut second = waiter(&cell, 0, "t4").await;
    drop(held.remove(0));
    assert!(is_waiting(&mut at_share).await, "its tenant holds two of eight");
    assert!(is_waiting(&mut second).await);
    assert!(first.await.is_ok());
    held.pop();
    assert!(at_share.await.is_ok(), "its tenant is below its share again, and it is the oldest");
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn between_classes_a_freed_place_goes_by_priority_and_then_by_age() {
    let with = |name, priority| {
        let mut class = queued(class(name, 0, 1), 4, ms(1000));
        class.priority = priority;
        class
    };
    let cell = cell(1, vec![with("late", 2), with("soon", 1), with("as-soon", 1)]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let waits = [0, 2, 1].map(|class| waiter(&cell, class, "acme"));
    let [late, as_soon, soon] = <[Wait; 3]>::try_from(join_all(waits).await).ok().unwrap();
    drop(place);
    assert_eq!(used(&cell), [0, 0, 1], "the older of the two with priority 1");
    drop(as_soon.await);
    assert_eq!(used(&cell), [0, 1, 0]);
    drop(soon.await);
    assert_eq!(used(&cell), [1, 0, 0]);
    drop(late.await);
    assert_eq!(used(&cell), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_has_a_share_of_the_queue_too() {
    let cell = quartered(8, vec![queued(class("a", 0, 1), 8, ms(1000))]);
    let _place = cell.try_acquire(0, &tenant("other")).unwrap();
    let _waits = [waiter(&cell, 0, "noisy").await, waiter(&cell, 0, "noisy").await];
    let refused = cell.acquire(0, &tenant("noisy"), None).await.err().unwrap();
    assert_eq!(refused.to_string(), "tenant's share of class a is full: 0 of 1 places in use, 2 of 2 queued");
    let _calm = waiter(&cell, 0, "calm").await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_granted_and_dropped_at_the_same_instant_gives_its_place_on() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 2, ms(1000))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let granted = waiter(&cell, 0, "acme").await;
    let mut next = waiter(&cell, 0, "acme").await;
    drop(place);
    assert!(is_waiting(&mut next).await);
    drop(granted);
    let place = next.await.unwrap();
    assert_eq!(used(&cell), [1]);
    drop(place);
    let seen = &cell.snapshot().classes[0];
    assert_eq!((seen.used, seen.queued, seen.abandoned, seen.granted), (0, 0, 1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_grant_at_the_instant_of_the_timeout_is_not_lost() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 1, ms(100))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let wait = waiter(&cell, 0, "acme").await;
    advance(ms(100)).await;
    drop(place);
    let granted = wait.await;
    assert!(granted.is_ok());
    assert_eq!(cell.snapshot().classes[0].timeouts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_counts_once() {
    // P39: a hand-over that decrements twice.
    let cell = cell(2, vec![queued(class("a", 1, 2), 50, ms(60_000))]);
    let calls = join_all((0..52).map(|_| call(&cell, 0, ms(10))));
    let watch = async {
        for _ in 0..25 {
            tokio::time::sleep(ms(10)).await;
            assert_eq!(cell.snapshot().used, 2);
        }
    };
    let (calls, ()) = tokio::join!(calls, watch);
    assert!(calls.iter().all(Result::is_ok));
    let seen = cell.snapshot();
    assert_eq!((seen.used, seen.classes[0].peak_used, seen.classes[0].granted), (0, 2, 52));
    let again: Vec<_> = (0..3).map(|_| cell.try_acquire(0, &tenant("acme")).is_ok()).collect();
    assert_eq!(again, [true, true, true], "each is dropped before the next");
}

#[tokio::test(start_paused = true)]
async fn closing_cancels_the_queued_and_later_calls_are_told_so_and_not_counted() {
    // P31
    let cell = cell(1, vec![queued(class("a", 0, 1), 2, ms(1000))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let waits = [waiter(&cell, 0, "acme").await, waiter(&cell, 0, "acme").await];
    cell.close();
    for wait in waits {
        assert_eq!(wait.await.err(), Some(Refused::ShutDown));
    }
    assert_eq!(cell.try_acquire(0, &tenant("acme")).err(), Some(Refused::ShutDown));
    assert_eq!(cell.acquire(0, &tenant("acme"), None).await.err(), Some(Refused::ShutDown));
    let seen = cell.snapshot();
    assert!(seen.closed);
    assert_eq!((seen.classes[0].refused, seen.classes[0].queued, seen.used), ([0; 3], 0, 1));
    drop(place);
    assert_eq!((cell.snapshot().used, cell.snapshot().tenants), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_woken_waiter_on_another_thread_gets_the_place() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 1, ms(1000))]);
    let place = cell.try_acquire(0, &tenant("acme")).unwrap();
    let mut wait = pin!(waiter(&cell, 0, "acme").await);
    std::thread::spawn(move || drop(place)).join().unwrap();
    assert!(wait.as_mut().await.is_ok());
}
