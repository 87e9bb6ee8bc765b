//! The handle under a model checker: every order in which threads can come to the lock. What a test says here holds in
//! all of them, not in those that a machine happens to show.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use cofferdam_model::{Alphabet, ClassName, TenantId};
use loom::future::block_on;
use loom::thread;

use crate::caps::{CapKind, CapLayout, CapName, CapsOf};
use crate::claim::Claim;
use crate::compartments::{Attempt, Compartments};
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::place::Place;
use crate::refusal::Refused;
use crate::waiting::Waiting;

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
}

/// A cell of so many places, all of them one class's, with a queue of four, and a dependency that may have two.
fn layout(places: u32) -> Layout {
    let name = ClassName::parse("a").unwrap();
    let max_wait = Duration::from_secs(60);
    let class = ClassLayout { name, priority: 0, floor: 1, ceiling: places, queue: 4, max_wait };
    let name = CapName { kind: CapKind::Dependency, name: "db".into() };
    let layout = Layout::new(places, TenantShare::WHOLE, 4, vec![class]).unwrap();
    layout.with_caps(vec![CapLayout { name, limit: 2 }]).unwrap()
}

/// Enters the queue without a timer, or is served.
async fn enter<'a>(cell: &'a Compartments, tenant: &TenantId) -> Result<Attempt<'a>, Refused> {
    let claim = Claim { caps: CapsOf::new(None, Some(0)), ..Claim::new(0, tenant) };
    poll_fn(|context| Poll::Ready(cell.enter(&claim, context.waker()))).await
}

/// Waits for as long as it takes.
fn acquire(cell: &Compartments, tenant: &TenantId) -> Result<Place, Refused> {
    block_on(async {
        match enter(cell, tenant).await? {
            Attempt::Placed(place) => Ok(place),
            Attempt::Queued(waiting, _) => waiting.await,
        }
    })
}

/// Looks once whether it has been granted; then it goes away, or its time is over.
fn look_once(cell: &Compartments, tenant: &TenantId, is_late: bool) {
    block_on(async {
        let Ok(Attempt::Queued(mut waiting, _)) = enter(cell, tenant).await else { return };
        // The first poll is part of entering, and looks at nothing.
        assert!(poll_once(&mut waiting).await.is_none());
        if poll_once(&mut waiting).await.is_none() && is_late {
            drop(waiting.finish());
        }
    });
}

async fn poll_once(waiting: &mut Waiting<'_>) -> Option<Result<Place, Refused>> {
    poll_fn(|context| match Pin::new(&mut *waiting).poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn is_empty(cell: &Compartments) {
    let seen = cell.snapshot();
    let class = &seen.classes[0];
    assert_eq!((seen.used, class.used, class.queued, seen.tenants), (0, 0, 0, 0));
    assert_eq!((seen.caps[0].used, seen.caps[0].queued), (0, 0));
    if seen.closed {
        return;
    }
    // Whatever there is can be had again.
    let all: Vec<_> = (0..class.ceiling).map(|_| cell.try_acquire(0, &tenant("z")).unwrap()).collect();
    assert!(cell.try_acquire(0, &tenant("z")).is_err());
    drop(all);
}

/// Waits for a place in a thread of its own.
fn waiter(cell: &Compartments) -> thread::JoinHandle<()> {
    let cell = cell.clone();
    thread::spawn(move || drop(acquire(&cell, &tenant("b")).unwrap()))
}

/// Waits for a place beside whoever else does, where there is one at most: then nobody else has any.
fn has_the_one_place(cell: &Compartments, name: &str) {
    let place = acquire(cell, &tenant(name)).unwrap();
    assert_eq!(cell.snapshot().used, 1);
    drop(place);
}

/// Tries every order in which each thread is interrupted at most three times where it could have gone on. All
/// orders would take minutes.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Runs two threads beside this one, on a cell of one place that is held at first.
fn race(
    first: impl Fn(&Compartments) + Clone + Send + Sync + 'static,
    second: impl Fn(&Compartments) + Clone + Send + Sync + 'static,
) {
    race_in(|| Compartments::new(layout(1)), first, second);
}

/// The same on a cell of which one place is held at first, and may be had.
fn race_in(
    cell: impl Fn() -> Compartments + Send + Sync + 'static,
    first: impl Fn(&Compartments) + Clone + Send + Sync + 'static,
    second: impl Fn(&Compartments) + Clone + Send + Sync + 'static,
) {
    check(move || {
        let cell = cell();
        let place = cell.try_acquire(0, &tenant("a")).unwrap();
        let one = {
            let (cell, act) = (cell.clone(), first.clone());
            thread::spawn(move || act(&cell))
        };
        let other = {
            let (cell, act) = (cell.clone(), second.clone());
            thread::spawn(move || act(&cell))
        };
        drop(place);
        one.join().unwrap();
        other.join().unwrap();
        let seen = cell.snapshot();
        assert!(seen.classes[0].peak_used <= seen.max);
        is_empty(&cell);
    });
}

/// A cell of two places, of which one may be had.
fn lowered() -> Compartments {
    let cell = Compartments::new(layout(2));
    cell.move_ceiling(0, 1, 1);
    cell
}

#[test]
fn whoever_waits_is_woken_and_nobody_is_forgotten() {
    let wait = |name| move |cell: &Compartments| drop(acquire(cell, &tenant(name)).unwrap());
    race(wait("b"), wait("c"));
    race(wait("a"), wait("a"));
}

#[test]
fn a_waiter_that_goes_away_as_it_is_granted_gives_its_place_on() {
    race(|cell| look_once(cell, &tenant("b"), false), |cell| drop(acquire(cell, &tenant("c")).unwrap()));
}

#[test]
fn a_wait_that_ends_as_it_is_granted_keeps_its_place_or_leaves_it() {
    race(|cell| look_once(cell, &tenant("b"), true), |cell| drop(acquire(cell, &tenant("c")).unwrap()));
}

#[test]
fn closing_reaches_whoever_waits_and_whoever_comes() {
    race(
        |cell| match acquire(cell, &tenant("b")) {
            Ok(place) => drop(place),
            Err(refused) => assert_eq!(refused, Refused::ShutDown),
        },
        Compartments::close,
    );
}

#[test]
fn who_goes_away_or_gives_up_as_all_is_closed_leaves_nothing() {
    for is_late in [false, true] {
        race(move |cell| look_once(cell, &tenant("b"), is_late), Compartments::close);
    }
}

#[test]
fn who_goes_away_or_gives_up_as_a_change_lets_it_in_gives_its_place_on() {
    for is_late in [false, true] {
        let wait = move |cell: &Compartments| look_once(cell, &tenant("b"), is_late);
        race(wait, |cell| drop(cell.change(layout(2))));
        race_in(lowered, wait, |cell| cell.free_ceiling(0));
    }
}

#[test]
fn a_ceiling_that_moves_forgets_nobody_and_is_never_exceeded() {
    check(|| {
        let cell = Compartments::new(layout(2));
        let place = cell.try_acquire(0, &tenant("a")).unwrap();
        let waiter = waiter(&cell);
        cell.move_ceiling(0, 1, 1);
        // What was admitted before drains: nobody is let in beside it.
        assert!(cell.try_acquire(0, &tenant("c")).is_err());
        drop(place);
        has_the_one_place(&cell, "c");
        waiter.join().unwrap();
        cell.free_ceiling(0);
        is_empty(&cell);
    });
}

#[test]
fn below_a_ceiling_that_was_moved_waiters_are_let_in_one_by_one() {
    race_in(lowered, |cell| has_the_one_place(cell, "b"), |cell| has_the_one_place(cell, "c"));
}

#[test]
fn a_ceiling_that_is_freed_lets_in_whoever_waits() {
    check(|| {
        let cell = lowered();
        let place = cell.try_acquire(0, &tenant("a")).unwrap();
        let waiter = waiter(&cell);
        cell.free_ceiling(0);
        waiter.join().unwrap();
        drop(place);
        is_empty(&cell);
    });
}

#[test]
fn a_change_of_limits_forgets_nobody_and_never_exceeds_them() {
    check(|| {
        let cell = Compartments::new(layout(2));
        let place = cell.try_acquire(0, &tenant("a")).unwrap();
        let waiter = waiter(&cell);
        cell.change(layout(1));
        // What was admitted before drains: nobody is let in beside it.
        assert!(cell.try_acquire(0, &tenant("c")).is_err());
        drop(place);
        has_the_one_place(&cell, "c");
        waiter.join().unwrap();
        is_empty(&cell);
        cell.change(layout(2));
        is_empty(&cell);
    });
}
