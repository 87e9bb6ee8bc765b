//! A layout that changes while places are held and requests wait. Time is paused.

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, TenantShare};
use cofferdam_model::CellReason;
use futures_util::poll;
use tokio::time::advance;

use crate::support::{cell, class, ms, quartered, queued, reason, tenant, used};

fn layout(max_in_flight: u32, classes: Vec<ClassLayout>) -> Layout {
    Layout::new(max_in_flight, TenantShare::WHOLE, 1000, classes).unwrap()
}

fn names(cell: &Compartments) -> Vec<String> {
    cell.snapshot().classes.iter().map(|class| class.class.to_string()).collect()
}

// P39: a plan change that is ignored.
#[tokio::test(start_paused = true)]
async fn a_limit_lowered_from_100_to_10_with_60_held_drains_and_admits_below_10() {
    let cell = cell(100, vec![class("a", 0, 100)]);
    let acme = tenant("acme");
    let mut held: Vec<_> = (0..60).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    cell.change(layout(10, vec![class("a", 0, 10)]));
    assert_eq!((used(&cell), cell.snapshot().max), (vec![60], 10), "nobody lost a place");
    while held.len() > 10 {
        assert!(cell.try_acquire(0, &acme).is_err(), "{} are held", held.len());
        held.pop();
    }
    assert!(cell.try_acquire(0, &acme).is_err(), "10 are held");
    held.pop();
    let tenth = cell.try_acquire(0, &acme);
    assert!(tenth.is_ok() && cell.try_acquire(0, &acme).is_err());
}

#[tokio::test(start_paused = true)]
async fn who_waits_keeps_its_place_in_line_and_is_let_in_as_soon_as_there_is_room() {
    let queue = |places| layout(places, vec![queued(class("a", 0, places), 8, ms(1000))]);
    let cell = Compartments::new(queue(2));
    let acme = tenant("acme");
    let held: Vec<_> = (0..2).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(cell.acquire(0, &acme, None))).collect();
    for wait in &mut waits {
        assert!(poll!(wait).is_pending());
    }
    cell.change(queue(1));
    assert_eq!((used(&cell), cell.snapshot().classes[0].queued), (vec![2], 3));
    // Without a queue nobody else may wait, but who waits does.
    cell.change(layout(1, vec![class("a", 0, 1)]));
    assert_eq!(cell.snapshot().classes[0].queued, 3);
    assert!(reason(cell.acquire(0, &acme, None).await).is_some());
    cell.change(queue(4));
    assert_eq!((used(&cell), cell.snapshot().classes[0].queued), (vec![4], 1));
    let mut places = Vec::new();
    let last = waits.split_off(2);
    for wait in waits {
        places.push(wait.await.unwrap());
    }
    drop(held);
    for wait in last {
        places.push(wait.await.unwrap());
    }
    assert_eq!(used(&cell), [3]);
    drop(places);
    assert_eq!((used(&cell), cell.snapshot().tenants), (vec![0], 0));
}

#[tokio::test(start_paused = true)]
async fn a_share_that_is_raised_lets_a_tenant_in_that_waited_for_it() {
    let quarter = TenantShare::default();
    let with = |share| Layout::new(8, share, 10, vec![queued(class("a", 0, 8), 8, ms(1000))]).unwrap();
    let cell = Compartments::new(with(quarter));
    let acme = tenant("acme");
    let _held: Vec<_> = (0..2).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    let mut wait = Box::pin(cell.acquire(0, &acme, None));
    assert!(poll!(&mut wait).is_pending());
    cell.change(with(TenantShare::WHOLE));
    assert!(wait.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_that_moves_takes_a_tenants_share_of_it_along() {
    let cell = quartered(40, vec![queued(class("a", 0, 40), 40, ms(1000))]);
    let acme = tenant("acme");
    cell.move_ceiling(0, 8, 8);
    let _held: Vec<_> = (0..2).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    assert_eq!(reason(cell.try_acquire(0, &acme)), Some(CellReason::Tenant), "a quarter of 8");
    let mut wait = Box::pin(cell.acquire(0, &acme, None));
    assert!(poll!(&mut wait).is_pending());
    cell.move_ceiling(0, 12, 12);
    assert!(wait.await.is_ok(), "a quarter of 12");
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_is_raised_is_kept_from_the_next_freed_place_on() {
    let with = |floor| layout(4, vec![class("a", 0, 4), class("b", floor, 4)]);
    let cell = Compartments::new(with(0));
    let acme = tenant("acme");
    let mut held: Vec<_> = (0..4).map(|_| cell.try_acquire(0, &acme).unwrap()).collect();
    cell.change(with(2));
    assert!(cell.saturations().classes().iter().all(|class| class.thousandths() == 1000));
    held.pop();
    assert!(cell.try_acquire(0, &acme).is_err(), "it is b's");
    let b = cell.try_acquire(1, &acme).unwrap();
    held.pop();
    assert!(cell.try_acquire(0, &acme).is_err(), "so is this one");
    let more = cell.try_acquire(1, &acme).unwrap();
    drop((b, more, held));
}

#[tokio::test(start_paused = true)]
async fn classes_come_and_go_and_nobody_falls_between_them() {
    let cell = cell(4, vec![class("a", 2, 4), queued(class("b", 0, 2), 4, ms(1000))]);
    let acme = tenant("acme");
    let held: Vec<_> = (0..2).map(|_| cell.try_acquire(1, &acme).unwrap()).collect();
    let mut wait = Box::pin(cell.acquire(1, &acme, None));
    assert!(poll!(&mut wait).is_pending());
    let indices = cell.change(layout(4, vec![class("c", 1, 4), class("a", 0, 4)]));
    assert_eq!((names(&cell), indices.classes.clone()), (vec!["c".to_owned(), "a".to_owned()], vec![2, 0]));
    assert_eq!(cell.snapshot().used, 2, "b's places are held, though b is gone");
    let c = cell.try_acquire(indices.classes[0], &acme).unwrap();
    drop(held);
    assert!(wait.await.is_ok(), "it waited in b, and still has its turn");
    drop(c);
    // A class that comes back has its index; one that was away for a whole change leaves it to another.
    let again = cell.change(layout(4, vec![class("b", 0, 4)]));
    assert_eq!(again.classes, [1]);
    cell.change(layout(4, vec![class("b", 0, 4)]));
    let other = cell.change(layout(4, vec![class("b", 0, 4), class("d", 0, 4)]));
    assert_eq!(other.classes, [1, 0], "a's or c's");
    assert_eq!((cell.snapshot().used, cell.snapshot().tenants), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_changes_of_names_take_no_more_memory_than_what_is_held() {
    let cell = cell(4, vec![class("c0", 0, 4)]);
    let mut most = 0;
    for n in 1..1000 {
        let indices = cell.change(layout(4, vec![class(&format!("c{n}"), 0, 4)]));
        most = most.max(indices.classes[0]);
        drop(cell.try_acquire(indices.classes[0], &tenant("acme")).unwrap());
        advance(ms(1)).await;
    }
    assert!(most <= 3, "{most}");
}
