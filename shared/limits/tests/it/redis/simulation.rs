//! Several routers by the rules of sessions, one tenant, and between them and the server a network that loses, repeats,
//! delays and reorders; routers that pause, servers that forget. What the routers do stays within the written bounds, and
//! every call that is executed is answered as the model answers it.

mod forgetting;
mod holder;
mod lessee;
mod world;

use std::cell::{Cell, RefCell};

use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::Held;
use forgetting::Forgetting;
use holder::Holder;
use lessee::Lessee;
use world::{Event, Faults, MARGIN_US, N_ROUTERS, TTL, World};

fn check(holds: bool, why: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(why())) }
}

/// Runs so many histories, and returns how many calls were executed in them.
fn run(
    cases: u32,
    faults: Faults,
    history: impl Fn(&mut Held, &[Event]) -> Result<u64, TestCaseError>,
) -> u64 {
    let (held, n_calls) = (RefCell::new(Held { ttl: TTL, ..Held::start() }), Cell::new(0));
    let config = Config { cases, source_file: Some(file!()), max_shrink_iters: 1_000, ..Config::default() };
    let histories = vec(world::event(faults), 1..800);
    let result = TestRunner::new(config).run(&histories, |events| {
        n_calls.set(n_calls.get() + history(&mut held.borrow_mut(), &events)?);
        Ok(())
    });
    result.unwrap();
    n_calls.get()
}

/// Permits in use, against what may be.
fn hold(held: &mut Held, events: &[Event]) -> Result<u64, TestCaseError> {
    let mut world = World::<Holder>::new(held);
    let (mut most_limit, mut forgetting) = (world.terms.limit, None);
    for event in events {
        world.happen(event)?;
        most_limit = most_limit.max(world.terms.limit);
        let in_use: u32 = world.routers.iter().map(|router| router.in_use_by_right()).sum();
        forgetting = match event {
            Event::Wipe | Event::Failover { .. } => Some(Forgetting::at(world.now)),
            _ => forgetting.and_then(|forgetting| forgetting.after(&world)),
        };
        let excess = if forgetting.is_some() { Forgetting::excess(most_limit) } else { 0 };
        check(in_use <= most_limit + excess, || format!("{in_use} in use of {most_limit} after {event:?}"))?;
    }
    // Nothing leaks for ever: once everybody has written what it uses, the rest can be had.
    world.pass(2 * TTL.as_micros() as i128);
    // A server that forgot begins to learn with the first of these calls.
    for _ in 0..3 {
        (0..N_ROUTERS).try_for_each(|router| world.round_trip(router, 0))?;
        world.pass(TTL.as_micros() as i128 - 2 * MARGIN_US);
    }
    let others: u32 = world.routers[1..].iter().map(|router| router.in_use()).sum();
    let free = world.terms.limit.saturating_sub(others).saturating_sub(world.routers[0].in_use());
    world.round_trip(0, 100)?;
    let cap = world.routers[0].cap();
    check(free == 0 || cap == world.terms.limit - others, || {
        format!("{cap} beside {others}, and {free} are free")
    })?;
    Ok(world.n_calls())
}

/// Tokens spent, against a bucket that one process would keep.
fn lease(held: &mut Held, events: &[Event]) -> Result<u64, TestCaseError> {
    let mut world = World::<Lessee>::new(held);
    let (n, p) = world.terms.rate();
    let mut most = i128::from(world.terms.capacity) * p;
    let mut level = most;
    for event in events {
        let (before, spent_before) = (world.now, world.spent());
        let at_risk: i128 = world.routers.iter().map(|router| router.unspent()).sum();
        world.happen(event)?;
        // A bucket that is full has a raised capacity at once.
        let raised = (i128::from(world.terms.capacity) * p - most).max(0);
        // After a wipe the bucket begins empty, but what is held is unknown until it is registered. A server that missed the
        // last writes may grant them again.
        let again = match event {
            Event::Wipe => at_risk * p,
            Event::Failover { is_behind: true } => at_risk * p + most,
            _ => 0,
        };
        (most, level) = (most + raised + again, level + raised + again);
        level = (level + n * (world.now - before)).min(most) - i128::from(world.spent() - spent_before) * p;
        check(level >= 0, || format!("{} tokens too many after {event:?}", -level / p))?;
    }
    // Nothing is lost for ever: what is given back, or forgotten, can be had again.
    for _ in 0..2 {
        world.pass(2 * TTL.as_micros() as i128);
        (0..N_ROUTERS).try_for_each(|router| world.round_trip(router, 0))?;
    }
    world.pass(20_000_000);
    world.round_trip(0, world.terms.capacity)?;
    let (unspent, capacity) = (world.routers[0].unspent(), i128::from(world.terms.capacity));
    check(unspent == capacity, || format!("{unspent} of {capacity} tokens at the end"))?;
    Ok(world.n_calls())
}

#[test]
fn permits_in_use_never_exceed_the_limit_whatever_the_network_does() {
    let n_calls = run(180, Faults::Network, hold);
    println!("{n_calls} calls of simulated routers");
    assert!(n_calls >= 10_000);
}

#[test]
fn after_a_wipe_or_a_failover_permits_exceed_the_limit_by_the_others_shares_at_most() {
    let n_calls = run(180, Faults::Server, hold);
    println!("{n_calls} calls of simulated routers");
    assert!(n_calls >= 10_000);
}

/// A loan that ended before the server had learned: its router may still be told to use its share.
#[test]
fn a_share_begun_after_every_loan_had_ended_comes_on_top_of_the_limit() {
    use Event::{Failover, Pass, RoundTrip, Start};
    let events = [
        RoundTrip { router: 0, want: 5 },
        Failover { is_behind: false },
        RoundTrip { router: 0, want: 6 },
        Start { router: 0, n: 5 },
        Pass(1_950_000),
        // It learns for 50 ms more.
        RoundTrip { router: 2, want: 2 },
        Pass(100_000),
        RoundTrip { router: 0, want: 3 },
        Start { router: 2, n: 8 },
    ];
    hold(&mut Held { ttl: TTL, ..Held::start() }, &events).unwrap();
}

/// A call that was sent before its router's loan ended names what others may have been granted since.
#[test]
fn an_answer_of_a_server_that_learns_restores_no_loan_that_had_ended() {
    use Event::{Pass, RoundTrip, Send, Start, Wipe};
    let events = [
        RoundTrip { router: 0, want: 6 },
        Pass(600_000),
        Send { router: 0, want: 1 },
        Pass(1_400_000),
        RoundTrip { router: 2, want: 5 },
        Start { router: 2, n: 5 },
        Wipe,
        RoundTrip { router: 0, want: 1 },
        Start { router: 0, n: 7 },
    ];
    hold(&mut Held { ttl: TTL, ..Held::start() }, &events).unwrap();
}

/// The first answer after the server had learned does not know of the shares that others use yet.
#[test]
fn a_cap_that_leaves_others_shares_out_holds_until_the_next_answer() {
    use Event::{Finish, Pass, RoundTrip, Start, Wipe};
    let events = [
        Wipe,
        RoundTrip { router: 2, want: 0 },
        Pass(1_900_000),
        RoundTrip { router: 1, want: 0 },
        RoundTrip { router: 2, want: 0 },
        Pass(100_000),
        RoundTrip { router: 0, want: 6 },
        Start { router: 2, n: 2 },
        Start { router: 0, n: 5 },
        RoundTrip { router: 1, want: 0 },
        RoundTrip { router: 2, want: 0 },
        Finish { router: 0, n: 2 },
        Start { router: 0, n: 3 },
    ];
    hold(&mut Held { ttl: TTL, ..Held::start() }, &events).unwrap();
}

#[test]
fn no_window_spends_more_than_capacity_and_rate_whatever_the_network_does() {
    let n_calls = run(180, Faults::Network, lease);
    println!("{n_calls} calls of simulated routers");
    assert!(n_calls >= 10_000);
}

#[test]
fn after_a_wipe_or_a_failover_no_more_is_spent_than_was_held_or_forgotten() {
    let n_calls = run(180, Faults::Server, lease);
    println!("{n_calls} calls of simulated routers");
    assert!(n_calls >= 10_000);
}
