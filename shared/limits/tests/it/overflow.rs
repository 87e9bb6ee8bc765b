//! More tenants than a router has room for, on limits that are shared: whoever finds none is held to this router's share, in
//! bounded memory, until there is room.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_limits::redis::{Mode, RedisStore};
use cofferdam_limits::{
    Admission, Demand, LevelPolicy, Levels, LimitStore, Limits, Outcome, Permit, Refusal, RouteKey,
    ShapePolicy,
};
use cofferdam_model::{Level, Limited, OnStoreFailure};

use crate::contract::{id, levels, paced, runtime};
use crate::loans::eventually;
use crate::shared_store::HeldServer;

/// Places in a router's table: one in each of its parts.
const ROOM: usize = 64;

fn plan() -> Levels {
    levels(&[LevelPolicy { max_in_flight: Some(4), ..paced(Level::Tenant, "1/h", 6) }])
}

fn admit(limits: &Limits, demand: &Demand<'_>) -> Result<Permit, Refusal> {
    match limits.admit(demand) {
        Admission::Admitted(permit) => Ok(permit),
        Admission::Refused(refusal) => Err(refusal),
        Admission::Pending(pending) => runtime(false).block_on(pending),
    }
}

/// Takes as much as `tenant` may have at once.
fn take(limits: &Limits, tenant: &str) -> Vec<Permit> {
    std::iter::from_fn(|| admit(limits, &Demand::new(&id(tenant), 1, &plan())).ok()).collect()
}

/// A router of two whose table is full; and what keeps it full.
fn full(held: &HeldServer) -> (Arc<RedisStore>, Limits, Vec<Permit>) {
    let store = held.open_for(1, Mode::Exact, "sessiona");
    let limits = Limits::new(store.clone(), Duration::from_secs(600));
    let permits = (0..3 * ROOM).flat_map(|n| take(&limits, &format!("tenant-{n}"))).collect();
    (store, limits, permits)
}

#[test]
fn tenants_beyond_the_room_are_held_to_a_share_and_nothing_fails() {
    let held = HeldServer::start();
    let store = held.open_for(1, Mode::Exact, "sessiona");
    let limits = Limits::new(store.clone(), Duration::from_secs(600));
    let mut in_flight: Vec<(String, Vec<Permit>)> = Vec::new();
    for n in 0..3 * ROOM {
        let tenant = format!("tenant-{n}");
        let permits = take(&limits, &tenant);
        in_flight.push((tenant, permits));
    }
    let metrics = limits.metrics();
    assert!(metrics.store.tenants <= ROOM && metrics.store.tenants_max == ROOM, "{metrics:?}");
    let n_with = |n: usize| in_flight.iter().filter(|(_, permits)| permits.len() == n).count();
    // The others have half of four permits, since there are two routers.
    assert_eq!((n_with(4), n_with(2)), (metrics.store.tenants, 3 * ROOM - metrics.store.tenants));
    // Very many more share what room there is for them: they are limited all the same, and asked for nobody.
    let calls = store.sharing().link.calls;
    for n in 0..1_000 {
        assert!(take(&limits, &format!("many-{n}")).len() <= 4);
    }
    let calls = store.sharing().link.calls - calls;
    assert!(calls < 4 * ROOM as u64, "{calls} calls");
    let metrics = limits.metrics();
    assert_eq!((metrics.store_errors, metrics.store_timeouts), (0, 0));
    assert!(metrics.store.overflowed >= 1_000 && metrics.store.tenants <= ROOM, "{metrics:?}");
    // Once others have gone there is room again, and the store has not heard of what was spent meanwhile.
    let left_out = in_flight.iter().find(|(_, permits)| permits.len() == 2).unwrap().0.clone();
    for (_, permits) in in_flight {
        permits.into_iter().for_each(|permit| permit.release(Outcome::Success));
    }
    eventually("all are forgotten", || {
        held.set_us(held.clock.now_us() + 1_000_000);
        limits.metrics().store.tenants == 0
    });
    assert_eq!(take(&limits, &left_out).len(), 4);
    assert_eq!(store.metrics().tenants, 1);
}

#[test]
fn while_the_store_is_away_who_finds_no_room_is_decided_as_its_plan_says() {
    let held = HeldServer::that_may_be_away();
    let (store, limits, _permits) = full(&held);
    let given_up = store.sharing().given_up;
    held.pause();
    eventually("the store is given up", || store.sharing().given_up > given_up);
    let overflowed = limits.metrics().store.overflowed;
    for n in 0..ROOM {
        let (late, plan) = (id(&format!("late-{n}")), plan());
        let take = |on_store_failure| {
            let demand = Demand { on_store_failure, ..Demand::new(&late, 1, &plan) };
            let permits: Vec<_> = (0..8).map(|_| admit(&limits, &demand)).collect();
            (permits.iter().filter(|permit| permit.is_ok()).count(), permits.into_iter().last().unwrap())
        };
        let (n_closed, refused) = take(OnStoreFailure::Closed);
        assert_eq!((n_closed, refused.unwrap_err().limited), (0, Limited::Store));
        assert_eq!(take(OnStoreFailure::Open).0, 8, "whatever the plan says");
        assert_eq!(take(OnStoreFailure::Local).0, 2, "half of it");
    }
    assert!(limits.metrics().store.overflowed > overflowed);
}

#[test]
fn who_finds_no_room_stands_in_a_line_that_moves_at_this_routers_share() {
    let held = HeldServer::start();
    let (store, limits, _permits) = full(&held);
    let shape = ShapePolicy::new("10/s".parse().unwrap(), 100, Duration::from_secs(60)).ok();
    let plan = levels(&[LevelPolicy { shape, ..LevelPolicy::unlimited(Level::Route) }]);
    let mut delays = Vec::new();
    for n in 0.. {
        let (late, overflowed) = (id(&format!("late-{n}")), store.metrics().overflowed);
        let demand = Demand { route: RouteKey(7), ..Demand::new(&late, 1, &plan) };
        let mut permit = admit(&limits, &demand).unwrap();
        if store.metrics().overflowed > overflowed {
            delays.push(permit.delay().as_millis());
        }
        permit.begin();
        if delays.len() == 4 {
            break;
        }
    }
    // Two routers share ten a second.
    assert_eq!(delays, [0, 200, 400, 600]);
}
