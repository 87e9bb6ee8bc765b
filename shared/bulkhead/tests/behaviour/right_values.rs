//! The right values that the design publishes, in paused or counted time.

use cofferdam_bulkhead::loss;
use cofferdam_model::CellReason;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::support::{call, caller, cell, class, ms, quartered, queued, reason, tenant, used};

#[tokio::test(start_paused = true)]
async fn with_own_pools_six_of_ten_payments_and_no_inventory_call_are_refused() {
    // P28: two pools of two places and two in the queue.
    let pool = |name| queued(class(name, 2, 2), 2, ms(1000));
    let shop = cell(4, vec![pool("payment"), pool("inventory")]);
    let payments = join_all((0..10).map(|_| call(&shop, 0, ms(300))));
    let inventory = join_all((0..3).map(|_| call(&shop, 1, ms(10))));
    let (payments, inventory) = tokio::join!(payments, inventory);
    assert_eq!(payments.iter().filter(|result| result.is_err()).count(), 6);
    assert_eq!(inventory.iter().filter(|result| result.is_err()).count(), 0);
    assert_eq!(used(&shop), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn with_one_shared_pool_four_payments_refuse_the_inventory_call() {
    // P27
    let shop = cell(2, vec![queued(class("all", 0, 2), 2, ms(1000))]);
    let payments = join_all((0..4).map(|_| call(&shop, 0, ms(300))));
    let inventory = async {
        sleep(ms(1)).await;
        call(&shop, 0, ms(10)).await
    };
    let (payments, inventory) = tokio::join!(payments, inventory);
    assert!(payments.iter().all(Result::is_ok));
    assert_eq!(reason(inventory), Some(CellReason::Cell));
}

#[tokio::test(start_paused = true)]
async fn a_hung_dependency_is_stopped_at_its_third_call_and_ten_places_never_notice() {
    // P3; P11: the compartment acts on the first call too many, whatever the rate.
    let cell = cell(12, vec![class("orders", 5, 5), class("search", 5, 5), class("recommend", 2, 2)]);
    let acme = tenant("acme");
    let _hung = [cell.try_acquire(2, &acme).unwrap(), cell.try_acquire(2, &acme).unwrap()];
    let start = Instant::now();
    assert_eq!(reason(cell.acquire(2, &acme, None).await), Some(CellReason::Class));
    assert_eq!(start.elapsed(), ms(0), "refused without a wait");
    for _ in 0..10 {
        let healthy = (0..10).map(|n| call(&cell, n % 2, ms(50)));
        assert!(join_all(healthy).await.iter().all(Result::is_ok));
    }
}

#[tokio::test(start_paused = true)]
async fn in_one_shared_pool_a_hung_dependency_stops_the_healthy_ones() {
    // P2
    let cell = cell(12, vec![class("all", 0, 12)]);
    let acme = tenant("acme");
    let _hung: Vec<_> = (0..12).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    assert!(call(&cell, 0, ms(50)).await.is_err());
}

#[test]
fn a_million_random_arrivals_are_lost_as_often_as_the_formula_says() {
    // P6: Poisson arrivals at 4 in a unit of time, exponential holds of mean 1, 5 places.
    const ARRIVALS: u64 = 1_000_000;
    let (cell, acme) = (cell(5, vec![class("search", 0, 5)]), tenant("acme"));
    let mut random = StdRng::seed_from_u64(6);
    let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
    let (mut now, mut held) = (0.0, Vec::with_capacity(5));
    for _ in 0..ARRIVALS {
        now += exponential(0.25);
        held.retain(|(end, _)| *end > now);
        held.extend(cell.try_acquire(0, &acme).ok().map(|place| (now + exponential(1.0), place)));
    }
    let seen = &cell.snapshot().classes[0];
    let lost: u64 = seen.refused.iter().sum();
    assert_eq!((seen.granted + lost, seen.peak_used), (ARRIVALS, 5));
    let share = lost as f64 / ARRIVALS as f64;
    assert!((share - 0.199).abs() < 0.005 && (share - loss(5, 4.0)).abs() < 0.005, "{share}");
}

#[tokio::test(start_paused = true)]
async fn fifteen_slow_calls_leave_twenty_of_twenty_fast_ones_in_time() {
    // P38
    let cell = cell(30, vec![queued(class("slow", 10, 10), 5, ms(60_000)), class("fast", 20, 20)]);
    let slow = join_all((0..15).map(|_| call(&cell, 0, ms(5000))));
    let start = Instant::now();
    let fast = async {
        sleep(ms(1)).await;
        let results = join_all((0..20).map(|_| call(&cell, 1, ms(10)))).await;
        (results, start.elapsed())
    };
    let (slow, (fast, elapsed)) = tokio::join!(slow, fast);
    assert_eq!(fast.iter().filter(|result| result.is_ok()).count(), 20);
    assert_eq!(elapsed, ms(11));
    assert!(slow.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), ms(10_000), "ten, then the five that waited");
}

#[tokio::test(start_paused = true)]
async fn capped_reports_pass_at_eight_a_second_and_checkout_at_four_thousand() {
    // P41: reports of 5 s on 40 places, checkout calls of 20 ms on 80.
    let cell = cell(200, vec![class("reports", 0, 40), class("checkout", 80, 80)]);
    let end = Instant::now() + ms(10_000);
    let start = |n: usize, class, hold| {
        let callers: Vec<_> = (0..n).map(|_| tokio::spawn(caller(cell.clone(), class, hold, end))).collect();
        async {
            join_all(callers)
                .await
                .into_iter()
                .map(Result::unwrap)
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        }
    };
    let (reports, checkout) = tokio::join!(start(300, 0, ms(5000)), start(80, 1, ms(20)));
    assert_eq!(reports.0, 80, "8/s for ten seconds");
    assert!(reports.1 > 0);
    assert_eq!(checkout, (40_000, 0), "4,000/s, every one served");
    assert_eq!(used(&cell), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn in_one_shared_pool_reports_pass_at_forty_a_second_and_checkout_starves() {
    // P40
    let cell = cell(200, vec![class("all", 0, 200)]);
    let reports = join_all((0..300).map(|_| call(&cell, 0, ms(5000))));
    let checkout = async {
        sleep(ms(1)).await;
        caller(cell.clone(), 0, ms(20), Instant::now() + ms(4900)).await
    };
    let start = Instant::now();
    let (reports, (served, refused)) = tokio::join!(reports, checkout);
    assert_eq!(reports.iter().filter(|result| result.is_ok()).count(), 200);
    assert_eq!(start.elapsed(), ms(5000), "200 in 5 s are 40/s");
    assert_eq!(served, 0);
    assert!(refused > 0);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_alone_gets_its_share_of_a_class() {
    // P9: at most a quarter.
    let cell = quartered(40, vec![class("search", 0, 40)]);
    let (acme, other) = (tenant("acme"), tenant("other"));
    let places: Vec<_> = (0..10).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &acme)), Some(CellReason::Tenant));
    assert!(cell.try_acquire(0, &other).is_ok());
    drop(places);
    assert!(cell.try_acquire(0, &acme).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_frees_its_place_at_once() {
    let cell = cell(1, vec![class("stream", 0, 1)]);
    let streaming = tokio::spawn({
        let cell = cell.clone();
        async move { call(&cell, 0, ms(10_000)).await }
    });
    sleep(ms(1000)).await;
    assert_eq!(used(&cell), [1]);
    streaming.abort();
    assert!(streaming.await.is_err());
    assert_eq!(used(&cell), [0]);
}
