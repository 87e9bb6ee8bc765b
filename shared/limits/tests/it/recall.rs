//! Recall: what idles at one router is found before another refuses. The time is in the test's hand.

use std::time::Duration;

use cofferdam_limits::redis::Mode;
use cofferdam_limits::{Demand, LevelPolicy, Levels, Limits, Outcome, Permit, Refusal};
use cofferdam_model::Level;

use crate::contract::{capped, id, levels, paced, runtime};
use crate::exactness::{Fleet, admit};
use crate::loans::eventually;

/// Two routers on one server that hear each other.
fn pair() -> Fleet {
    Fleet::start(2)
}

fn one(limits: &Limits, tenant: &str, plan: &Levels) -> Result<Permit, Refusal> {
    admit(limits, &Demand::new(&id(tenant), 1, plan))
}

/// So many requests one after the other; how many were admitted.
fn in_a_row(limits: &Limits, n: usize, plan: &Levels) -> usize {
    let passes = |_: &usize| one(limits, "acme", plan).map(|permit| permit.release(Outcome::Success)).is_ok();
    (0..n).filter(passes).count()
}

fn default_plan() -> Levels {
    levels(&[LevelPolicy { max_in_flight: Some(200), ..paced(Level::Tenant, "1000/s", 2_000) }])
}

#[test]
fn a_few_requests_in_a_row_at_one_router_leave_room_at_the_other() {
    let fleet = pair();
    let plan = default_plan();
    for round in 0..8 {
        for (here, there) in [(0, 1), (1, 0)] {
            assert_eq!(in_a_row(fleet.router(here), 12, &plan), 12, "{round}");
            assert_eq!(in_a_row(fleet.router(there), 1, &plan), 1, "{round}");
        }
        fleet.pass(300_000);
    }
    let idle: u64 = (0..2).map(|at| fleet.stores[at].sharing().idle_permits).sum();
    assert!(idle <= 16, "{idle} permits lie idle of a tenant that uses one");
}

#[test]
fn a_burst_that_alternates_is_had_to_its_last_token() {
    let (fleet, plan) = (pair(), levels(&[paced(Level::Tenant, "20/s", 100)]));
    let admitted: usize = (0..95).map(|n| in_a_row(fleet.router(n % 2), 1, &plan)).sum();
    assert_eq!(admitted, 95);
    let rest: usize = (0..20).map(|n| in_a_row(fleet.router(n % 2), 1, &plan)).sum();
    assert_eq!(rest, 5, "and not one more");
}

#[test]
fn what_one_router_left_of_a_burst_the_other_can_have() {
    let (fleet, plan) = (pair(), levels(&[paced(Level::Tenant, "20/s", 100)]));
    assert_eq!(in_a_row(fleet.router(0), 60, &plan), 60);
    assert_eq!(in_a_row(fleet.router(1), 50, &plan), 40);
}

#[test]
fn a_route_and_a_quota_are_had_to_their_last_token_as_well() {
    use cofferdam_limits::{WindowPolicy, Windows};
    let windows = Windows::new(&[WindowPolicy::new(3_600, 90).unwrap()]).unwrap();
    let quota = LevelPolicy { windows, ..LevelPolicy::unlimited(Level::Tenant) };
    for plan in [levels(&[paced(Level::Route, "20/s", 90)]), levels(&[quota])] {
        let fleet = pair();
        assert_eq!(in_a_row(fleet.router(0), 50, &plan), 50);
        assert_eq!(in_a_row(fleet.router(1), 60, &plan), 40);
    }
}

#[test]
fn permits_that_idle_beside_long_requests_go_to_who_needs_them() {
    let fleet = pair();
    let plan = levels(&[LevelPolicy { max_in_flight: Some(100), ..paced(Level::Tenant, "1000/s", 2_000) }]);
    let mut long: Vec<_> = (0..100).map(|_| one(fleet.router(0), "acme", &plan).unwrap()).collect();
    fleet.pass(1_000_000);
    long.drain(..20).for_each(|permit| permit.release(Outcome::Success));
    for second in 0..10 {
        assert_eq!(in_a_row(fleet.router(1), 1, &plan), 1, "in second {second}");
        fleet.pass(1_000_000);
        // The time in the test's hand may outrun a router, and what it holds would end.
        eventually("the long requests are told of again", || {
            fleet.held.permits_end_us(&id("acme"), "session1") >= fleet.held.clock.now_us() + 3_900_000
        });
    }
    let more: Vec<_> = (0..20).map_while(|_| one(fleet.router(1), "acme", &plan).ok()).collect();
    assert_eq!(more.len(), 20);
    assert!(one(fleet.router(1), "acme", &plan).is_err() && one(fleet.router(0), "acme", &plan).is_err());
}

#[test]
fn the_ceiling_has_room_for_others_beside_what_one_tenant_has_used() {
    let fleet = pair();
    let plan = levels(&[
        LevelPolicy { max_in_flight: Some(50), ..paced(Level::Fleet, "5000/s", 10_000) },
        capped(Level::Tenant, 40),
    ]);
    let long: Vec<_> = (0..30).map(|_| one(fleet.router(0), "acme", &plan).unwrap()).collect();
    let others: Vec<_> =
        (0..20).map(|n| one(fleet.router(1), &format!("tenant-{n}"), &plan).unwrap()).collect();
    let refusal = one(fleet.router(1), "one-more", &plan).unwrap_err();
    assert_eq!((refusal.level, long.len() + others.len()), (Level::Fleet, 50));
    assert_eq!(fleet.unanswered(), 0, "all had answered before anybody was refused");
}

#[test]
fn a_permit_on_its_way_back_is_waited_for() {
    let (fleet, plan) =
        (pair(), levels(&[LevelPolicy { max_in_flight: Some(8), ..paced(Level::Tenant, "1000/s", 2_000) }]));
    for _ in 0..50 {
        for router in 0..2 {
            let all: Vec<_> = (0..8).map(|_| one(fleet.router(router), "acme", &plan).unwrap()).collect();
            all.into_iter().for_each(|permit| permit.release(Outcome::Success));
        }
    }
}

#[test]
fn what_a_router_admitted_by_itself_is_charged_once_the_store_is_back() {
    use crate::shared_store::HeldServer;
    let fleet = Fleet::on(HeldServer::that_may_be_away(), 2, Duration::from_secs(600));
    let plan = levels(&[paced(Level::Tenant, "20/s", 100)]);
    assert_eq!(in_a_row(fleet.router(0), 100, &plan), 100);
    fleet.held.pause();
    eventually("the store is away", || {
        fleet.held.clock.advance(Duration::from_millis(100));
        drop(one(fleet.router(0), "acme", &plan));
        fleet.stores.iter().all(|store| store.sharing().is_away)
    });
    // Long enough for the store's bucket to be full again, and for every account to be forgotten.
    fleet.held.clock.advance(Duration::from_secs(20));
    let alone: usize = (0..2).map(|at| in_a_row(fleet.router(at), 60, &plan)).sum();
    assert!((98..=104).contains(&alone), "two shares of 50: {alone}");
    fleet.held.resume();
    fleet.held.set_us(fleet.held.clock.now_us());
    eventually("the store is back", || fleet.stores.iter().all(|store| !store.sharing().is_away));
    eventually("what was admitted is charged", || fleet.held.level(&id("acme")) < 0);
    fleet.settle();
    let after: usize = (0..2).map(|at| in_a_row(fleet.router(at), 60, &plan)).sum();
    assert!(after <= 10, "{after} on top of the extra burst");
}

#[test]
fn a_router_that_hears_nothing_costs_a_wait_and_no_correctness() {
    let (fleet, plan) = (pair(), levels(&[paced(Level::Tenant, "20/s", 100)]));
    assert_eq!(in_a_row(fleet.router(0), 60, &plan), 60);
    fleet.held.deafen();
    let admitted = in_a_row(fleet.router(1), 50, &plan);
    assert!((1..=40).contains(&admitted), "{admitted}");
    // Only if tokens idled at the other one was a refusal false.
    assert!(admitted == 40 || fleet.unanswered() > 0, "{admitted}, and nobody is told");
}

#[test]
fn a_router_that_leaves_gives_back_what_idles_with_it() {
    let fleet = pair();
    let plan = levels(&[LevelPolicy { max_in_flight: Some(40), ..paced(Level::Tenant, "20/s", 100) }]);
    assert_eq!(in_a_row(fleet.router(0), 60, &plan), 60);
    // Nobody can ask it for anything.
    fleet.held.deafen();
    runtime(false).block_on(fleet.stores[0].leave());
    assert_eq!(fleet.stores[0].sharing().idle_permits, 0);
    let all: Vec<_> = (0..50).map_while(|_| one(fleet.router(1), "acme", &plan).ok()).collect();
    assert_eq!(all.len(), 40, "every permit, and every token that is left");
}

#[test]
fn exact_limits_recall_what_was_lent_before() {
    let fleet = pair();
    let plan = levels(&[paced(Level::Tenant, "20/s", 100)]);
    assert_eq!(in_a_row(fleet.router(0), 30, &plan), 30);
    for store in &fleet.stores {
        store.change(Mode::Exact, 2);
    }
    assert_eq!(in_a_row(fleet.router(1), 80, &plan), 70);
    runtime(false).block_on(fleet.stores[0].settled());
}
