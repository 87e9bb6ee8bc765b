//! Whose turn it is among tenants, and who is told at once that waiting is no use. Time is paused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_bulkhead::{
    CapKind, CapLayout, CapName, CapsOf, Claim, Compartments, Layout, Refused, TenantShare,
};
use cofferdam_model::CellReason;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::support::{call, cell, class, ms, quartered, queued, reason, tenant, used};

/// When a tenant's calls were given their places, since the start.
type Starts = Arc<Mutex<Vec<Duration>>>;

/// Lets a tenant queue `n` calls that each hold a place for `hold`.
fn crowd(cell: &Compartments, name: &str, weight: u32, n: usize, hold: Duration) -> Starts {
    let (starts, begun) = (Starts::default(), Instant::now());
    for _ in 0..n {
        let (cell, tenant, starts) = (cell.clone(), tenant(name), Arc::clone(&starts));
        tokio::spawn(async move {
            let claim = Claim { weight, ..Claim::new(0, &tenant) };
            if let Ok(_place) = cell.claim(&claim).await {
                starts.lock().unwrap().push(begun.elapsed());
                sleep(hold).await;
            }
        });
    }
    starts
}

fn before(starts: &Starts, end: Duration) -> usize {
    starts.lock().unwrap().iter().filter(|start| **start < end).count()
}

// P52
#[tokio::test(start_paused = true)]
async fn who_comes_behind_a_thousand_of_another_tenants_has_the_next_turn() {
    let cell = cell(4, vec![queued(class("a", 0, 4), 2000, ms(60_000))]);
    let noisy = crowd(&cell, "noisy", 1, 1004, ms(10));
    sleep(ms(105)).await;
    let (begun, calm) = (Instant::now(), tenant("calm"));
    let place = cell.acquire(0, &calm, None).await.unwrap();
    assert!(begun.elapsed() <= ms(10), "{:?}: first in, first out would be 2.4 s", begun.elapsed());
    drop(place);
    sleep(ms(10_000)).await;
    assert_eq!(before(&noisy, ms(10_000)), 1004, "nobody is forgotten");
}

// P52
#[tokio::test(start_paused = true)]
async fn places_go_by_weight() {
    let cell = cell(4, vec![queued(class("a", 0, 4), 2000, ms(60_000))]);
    let starts = [("a", 1), ("b", 2), ("c", 5)].map(|(name, weight)| crowd(&cell, name, weight, 600, ms(10)));
    sleep(ms(2000)).await;
    let [a, b, c] = starts.each_ref().map(|starts| before(starts, ms(2000)) as f64);
    assert_eq!(a + b + c, 800.0);
    for (part, of) in [(a, 100.0), (b, 200.0), (c, 500.0)] {
        assert!((part - of).abs() <= 0.05 * of + 5.0, "{a} {b} {c}");
    }
}

// P52: what is shared is place-time, so that long requests do not take more than short ones.
#[tokio::test(start_paused = true)]
async fn a_tenant_of_slow_requests_gets_no_more_place_time() {
    let cell = cell(8, vec![queued(class("a", 0, 8), 4000, ms(60_000))]);
    let (slow, quick) = (crowd(&cell, "slow", 1, 500, ms(200)), crowd(&cell, "quick", 1, 3000, ms(10)));
    sleep(ms(5000)).await;
    let (slow, quick) = (before(&slow, ms(5000)) as f64 * 200.0, before(&quick, ms(5000)) as f64 * 10.0);
    assert!((0.8..1.25).contains(&(slow / quick)), "{slow} ms and {quick} ms of 40000");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_was_idle_saves_nothing_up() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 2000, ms(60_000))]);
    let busy = crowd(&cell, "busy", 1, 400, ms(10));
    sleep(ms(1000)).await;
    let late = crowd(&cell, "late", 1, 400, ms(10));
    sleep(ms(1000)).await;
    let (busy, late) = (before(&busy, ms(2000)) - 100, before(&late, ms(1000)));
    assert!(late.abs_diff(busy) <= 4, "{busy} {late}");
}

#[tokio::test(start_paused = true)]
async fn tenants_at_their_share_hold_up_nobody() {
    let cell = quartered(8, vec![queued(class("a", 0, 8), 400, ms(60_000))]);
    let noisy = crowd(&cell, "noisy", 1, 90, ms(100));
    sleep(ms(1)).await;
    let others = ["b", "c", "d"].map(|name| crowd(&cell, name, 1, 20, ms(100)));
    sleep(ms(998)).await;
    assert_eq!(before(&noisy, ms(998)), 20, "two at a time");
    assert!(others.iter().all(|starts| before(starts, ms(998)) == 20), "they have two each besides");
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_so_at_once() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 50, ms(350))]);
    call(&cell, 0, ms(100)).await.unwrap();
    let calls = (0..6).map(|_| call(&cell, 0, ms(100)));
    let begun = Instant::now();
    let outcomes = join_all(calls.map(async |call| (call.await, begun.elapsed()))).await;
    let ends: Vec<_> = outcomes.iter().map(|(_, end)| end.as_millis()).collect();
    assert_eq!(ends, [100, 200, 300, 400, 0, 0], "the fifth and the sixth would have waited 400 ms");
    let Err(Refused::Full { reason, expected, waited, .. }) = &outcomes[4].0 else { panic!("{outcomes:?}") };
    assert_eq!((*reason, *expected, *waited), (CellReason::Cell, ms(400), ms(0)));
    assert_eq!((cell.snapshot().classes[0].hopeless, cell.snapshot().classes[0].timeouts), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_shortens_the_wait_that_is_reckoned_with() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 50, ms(10_000))]);
    call(&cell, 0, ms(100)).await.unwrap();
    let _place = cell.try_acquire(0, &tenant("other")).unwrap();
    let begun = Instant::now();
    let refused = cell.acquire(0, &tenant("acme"), Some(begun + ms(399))).await;
    assert_eq!((reason(refused), begun.elapsed()), (Some(CellReason::Cell), ms(0)));
    let refused = cell.acquire(0, &tenant("acme"), Some(begun + ms(404))).await;
    assert_eq!((reason(refused), begun.elapsed()), (Some(CellReason::Cell), ms(101)));
}

/// Waits of those that were served when twice as many come as can be, by when they came.
async fn waits_under_overload(cell: &Compartments) -> Vec<(u64, u64)> {
    let waits = Arc::new(Mutex::new(Vec::new()));
    for n in 0..400 {
        let (cell, waits) = (cell.clone(), Arc::clone(&waits));
        tokio::spawn(async move {
            let (begun, tenant) = (Instant::now(), tenant(&format!("t{}", n % 40)));
            if let Ok(_place) = cell.acquire(0, &tenant, None).await {
                waits.lock().unwrap().push((n * 5, begun.elapsed().as_millis() as u64));
                sleep(ms(10)).await;
            }
        });
        sleep(ms(5)).await;
    }
    waits.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_stands_is_worked_off_and_nothing_is_served_less() {
    let cell = cell(1, vec![queued(class("a", 0, 1), 50, ms(100))]);
    let waits = waits_under_overload(&cell).await;
    let mean = |from, to| {
        let some: Vec<_> =
            waits.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, wait)| *wait).collect();
        some.iter().sum::<u64>() / some.len() as u64
    };
    // Full all the time, it would hold everybody for 90 ms and serve nobody more.
    assert!(mean(60, 120) >= 70, "at first the queue grows: {waits:?}");
    assert!(mean(200, 2000) <= 20, "then it is worked off and stays short: {waits:?}");
    assert!(waits.len() >= 190, "one place of 10 ms for 2 s: {}", waits.len());
}

// P3: who waits for a dependency that hangs fills nobody's queue.
#[tokio::test(start_paused = true)]
async fn a_dependency_that_hangs_takes_its_cap_of_places_and_queue_and_no_more() {
    let name = CapName { kind: CapKind::Dependency, name: "db".into() };
    let class = queued(class("a", 0, 6), 6, ms(60_000));
    let layout = Layout::new(8, TenantShare::WHOLE, 100, vec![class]).unwrap();
    let cell = Compartments::new(layout.with_caps(vec![CapLayout { name, limit: 4 }]).unwrap());
    let acme = tenant("acme");
    let needs_db = Claim { caps: CapsOf::new(None, Some(0)), ..Claim::new(0, &acme) };
    let hung: Vec<_> = (0..3).map(|_| cell.try_claim(&needs_db).unwrap()).collect();
    let others: Vec<_> = (0..3).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    let waits = tokio::spawn({
        let cell = cell.clone();
        async move { cell.claim(&Claim { caps: CapsOf::new(None, Some(0)), ..Claim::new(0, &tenant("b")) }).await }
    });
    sleep(ms(1)).await;
    let begun = Instant::now();
    let refused = cell.claim(&needs_db).await.unwrap_err();
    assert_eq!(refused.to_string(), "dependency db is full for class a: 3 of 4 in use, 1 queued");
    assert_eq!(begun.elapsed(), ms(0));
    drop(others);
    assert!(waits.await.unwrap().is_ok());
    drop(hung);
    assert_eq!((used(&cell), cell.snapshot().caps[0].used), (vec![0], 0));
}
