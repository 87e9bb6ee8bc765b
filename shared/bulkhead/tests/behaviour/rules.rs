//! The rules of admission, and what the compartments say of themselves.

use cofferdam_bulkhead::Refused;
use cofferdam_model::{CellReason, Saturation};

use crate::support::{cell, class, ms, quartered, queued, reason, tenant, used};

#[test]
fn idle_room_is_lent_but_an_unused_floor_is_not() {
    // P12, P21
    let cell = cell(10, vec![class("a", 2, 10), class("b", 3, 10)]);
    let acme = tenant("acme");
    let lent: Vec<_> = (0..7).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &acme)), Some(CellReason::Cell), "three places are b's");
    let floor: Vec<_> = (0..3).map(|_| cell.try_acquire(1, &acme).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(1, &acme)), Some(CellReason::Cell), "all ten are held");
    drop(lent);
    assert_eq!(used(&cell), [0, 3]);
    let _more: Vec<_> = (0..5).map(|_| cell.try_acquire(1, &acme).unwrap()).collect();
    assert!(cell.try_acquire(1, &acme).is_err(), "two places are a's");
    drop(floor);
}

#[test]
fn a_ceiling_caps_however_idle_the_cell_is() {
    // P21
    let cell = cell(10, vec![class("a", 1, 4)]);
    let _held: Vec<_> = (0..4).map(|_| cell.try_acquire(0, &tenant("acme")).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &tenant("acme"))), Some(CellReason::Class));
    assert_eq!(cell.snapshot().used, 4);
}

#[test]
fn named_limits_hold_and_an_unknown_name_makes_no_compartment() {
    // P33; P39: a new limiter for each unknown name.
    let named = [("payment", 10), ("search", 50), ("reports", 100), ("default", 20)];
    let cell = cell(180, named.iter().map(|&(name, limit)| class(name, 0, limit)).collect());
    let index = |name: &str| cell.layout().classes().iter().position(|class| class.name.as_str() == name);
    let default = index("default").unwrap();
    for (name, limit) in named.into_iter().chain([("nobody-knows-it", 20)]) {
        let class = index(name).unwrap_or(default);
        let held: Vec<_> = (0..limit).map(|_| cell.try_acquire(class, &tenant("acme")).unwrap()).collect();
        assert!(cell.try_acquire(class, &tenant("acme")).is_err(), "{name} stops at {limit}");
        drop(held);
    }
    assert_eq!(cell.snapshot().classes.len(), 4);
}

#[test]
fn a_refusal_names_the_compartment_with_active_and_queued() {
    // P30
    let cell = quartered(8, vec![class("a", 0, 4), class("b", 2, 8)]);
    let name = |n: u32| tenant(&format!("t{n}"));
    let text = |class, tenant| match cell.try_acquire(class, &tenant) {
        Err(refused) => refused.to_string(),
        Ok(_) => "admitted".to_owned(),
    };
    let _a: Vec<_> = (0..4).map(|n| cell.try_acquire(0, &name(n)).unwrap()).collect();
    assert_eq!(text(0, name(0)), "tenant's share of class a is full: 1 of 1 places in use, 0 of 0 queued");
    assert_eq!(text(0, name(9)), "class a is full: 4 of 4 places in use, 0 of 0 queued");
    let _b: Vec<_> = (0..4).map(|n| cell.try_acquire(1, &name(n)).unwrap()).collect();
    assert_eq!(text(1, name(9)), "cell is full for class b: 8 of 8 places in use, 0 of 0 queued");
    assert_eq!(Refused::ShutDown.to_string(), "compartments are shut down");
}

#[test]
fn the_narrowest_level_that_stops_a_request_is_its_reason() {
    let cell = quartered(5, vec![class("a", 0, 4), class("b", 0, 1)]);
    let hold = |n: usize| (0..n).map(|n| cell.try_acquire(0, &tenant(&format!("t{n}"))).unwrap());
    let (_class, _rest): (Vec<_>, _) = (hold(4).collect(), cell.try_acquire(1, &tenant("t9")).unwrap());
    // The tenant, the class and the cell are all full.
    assert_eq!(reason(cell.try_acquire(0, &tenant("t0"))), Some(CellReason::Tenant));
    assert_eq!(reason(cell.try_acquire(0, &tenant("t9"))), Some(CellReason::Class));
}

#[test]
fn a_ceiling_that_is_the_whole_cell_is_no_level_so_that_traffic_can_move() {
    let cell = quartered(4, vec![class("a", 0, 4)]);
    let _held: Vec<_> = (0..4).map(|n| cell.try_acquire(0, &tenant(&format!("t{n}"))).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &tenant("t0"))), Some(CellReason::Tenant));
    assert_eq!(reason(cell.try_acquire(0, &tenant("t9"))), Some(CellReason::Cell));
}

#[test]
fn active_queued_and_refused_are_counted() {
    // P32, P17
    let cell = quartered(10, vec![class("a", 1, 8), queued(class("b", 0, 5), 4, ms(10))]);
    let places: Vec<_> = ["x", "x", "y"].map(|name| cell.try_acquire(0, &tenant(name)).unwrap()).into();
    assert!(cell.try_acquire(0, &tenant("x")).is_err());
    let snapshot = cell.snapshot();
    let (a, b) = (&snapshot.classes[0], &snapshot.classes[1]);
    assert_eq!((a.used, a.floor, a.ceiling, a.granted, a.peak_used), (3, 1, 8, 3, 3));
    assert_eq!(CellReason::ALL.map(|reason| a.refused_for(reason)), [1, 0, 0]);
    assert_eq!((b.used, b.queued, b.queue), (0, 0, 4));
    assert_eq!((snapshot.used, snapshot.max, snapshot.tenants), (3, 10, 2));
    let top: Vec<_> = snapshot.top_tenants.iter().map(|top| (top.tenant.as_str(), top.used)).collect();
    assert_eq!(top, [("x", 2), ("y", 1)]);

    drop(places);
    let later = cell.snapshot();
    assert_eq!((later.epoch, later.sequence), (snapshot.epoch, snapshot.sequence + 1));
    assert_eq!((later.classes[0].used, later.classes[0].peak_used, later.tenants), (0, 3, 0));
}

#[test]
fn a_snapshot_names_ten_tenants_and_those_with_the_most() {
    let cell = cell(100, vec![class("a", 0, 100)]);
    let hold = |n: u32| (0..=n).map(move |_| n);
    let places: Vec<_> =
        (0..13).flat_map(hold).map(|n| cell.try_acquire(0, &tenant(&format!("t{n}")))).collect();
    assert_eq!(places.len(), 91);
    let top: Vec<_> = cell.snapshot().top_tenants.iter().map(|top| top.used).collect();
    assert_eq!(top, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
}

#[test]
fn a_class_that_the_full_cell_refuses_is_saturated_however_low_its_use() {
    let cell = cell(10, vec![class("a", 0, 10), class("b", 2, 4), class("c", 0, 10)]);
    let acme = tenant("acme");
    let saturation = || cell.saturations().classes().iter().map(|s| s.thousandths()).collect::<Vec<_>>();
    assert_eq!(saturation(), [0, 0, 0]);
    let _c = cell.try_acquire(2, &acme).unwrap();
    let _a: Vec<_> = (0..7).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    assert_eq!(saturation(), [1000, 0, 1000], "only b's floor is left");
    assert_eq!(cell.saturations().cell(), Saturation::ratio(8, 10));
    let _b = cell.try_acquire(1, &acme).unwrap();
    assert_eq!(saturation(), [1000, 500, 1000], "one of the two that b could hold");
}

#[test]
fn a_tenant_at_its_share_does_not_make_its_class_saturated() {
    let cell = quartered(8, vec![class("a", 0, 8)]);
    let _held: Vec<_> = (0..2).map(|_| cell.try_acquire(0, &tenant("noisy")).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &tenant("noisy"))), Some(CellReason::Tenant));
    assert_eq!(cell.saturations().classes(), [Saturation::ratio(2, 8)]);
}

#[test]
fn clones_are_handles_to_the_same_places() {
    let cell = cell(1, vec![class("a", 0, 1)]);
    let _place = cell.clone().try_acquire(0, &tenant("acme")).unwrap();
    assert!(cell.clone().try_acquire(0, &tenant("acme")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_that_is_set_lower_drains_and_one_that_is_set_higher_lets_waiters_in() {
    // P22
    let cell = cell(100, vec![queued(class("a", 2, 100), 10, ms(500))]);
    let mut places: Vec<_> = (0..60).map(|_| cell.try_acquire(0, &tenant("acme")).unwrap()).collect();
    cell.move_ceiling(0, 10, 10);
    assert_eq!((cell.snapshot().classes[0].used, cell.snapshot().classes[0].ceiling), (60, 10));
    places.truncate(10);
    assert!(cell.try_acquire(0, &tenant("acme")).is_err(), "ten are as many as may be");
    let waiting = {
        let cell = cell.clone();
        tokio::spawn(async move { cell.acquire(0, &tenant("acme"), None).await })
    };
    tokio::task::yield_now().await;
    cell.move_ceiling(0, 11, 11);
    assert!(waiting.await.unwrap().is_ok());
    cell.move_ceiling(0, 0, 0);
    assert_eq!(cell.snapshot().classes[0].ceiling, 1, "one at least");
    cell.move_ceiling(0, 200, 200);
    assert_eq!(cell.snapshot().classes[0].ceiling, 100, "no more than its layout says");
    cell.move_ceiling(0, 20, 20);
    cell.free_ceiling(0);
    assert_eq!(cell.snapshot().classes[0].ceiling, 100);
}
