//! More tenants than a router has room for, on limits that are shared: whoever finds none is held to this router's share, in
//! bounded memory, until there is room.

use cofferdam_limits::redis::Mode;
use cofferdam_limits::{Admission, Demand, LevelPolicy, Levels, LimitStore, Limits, Outcome, Permit};
use cofferdam_model::Level;

use crate::contract::{id, levels, paced, runtime};
use crate::loans::eventually;
use crate::shared_store::HeldServer;

/// Places in a router's table: one in each of its parts.
const ROOM: usize = 64;

fn plan() -> Levels {
    levels(&[LevelPolicy { max_in_flight: Some(4), ..paced(Level::Tenant, "1/h", 6) }])
}

/// Takes as much as `tenant` may have at once.
fn take(limits: &Limits, tenant: &str) -> Vec<Permit> {
    let admit = || match limits.admit(&Demand::new(&id(tenant), 1, &plan())) {
        Admission::Admitted(permit) => Some(permit),
        Admission::Refused(_) => None,
        Admission::Pending(pending) => runtime(false).block_on(pending).ok(),
    };
    std::iter::from_fn(admit).collect()
}

#[test]
fn tenants_beyond_the_room_are_held_to_a_share_and_nothing_fails() {
    let held = HeldServer::start();
    let store = held.open_for(1, Mode::Exact, "sessiona");
    let limits = Limits::new(store.clone(), std::time::Duration::from_secs(600));
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
