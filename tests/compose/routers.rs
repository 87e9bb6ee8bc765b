//! Two routers of one fleet: what they serve and refuse together, and what is left when one of them is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::Value;

use crate::engine;
use crate::fleet::{Fleet, Published};
use crate::support::eventually;
use crate::support::metrics::scrape;
use crate::support::raw::{self, get};

/// How many tenants ask, each with a plan that lets it.
const N_TENANTS: usize = 40;

/// The plan `trickle`: its burst, and what is refilled in a second.
const BURST: usize = 10;
const SUSTAINED: f64 = 2.0;

#[tokio::test]
async fn a_fleet_in_containers_shares_its_limits_and_outlives_a_router() {
    if let Err(why) = engine::answers() {
        engine::skipped("a_fleet_in_containers_shares_its_limits_and_outlives_a_router", &why);
        return;
    }
    let fleet = Fleet::up();
    let Published { balancer, routers: [a, b] } = fleet.ready().await;

    let homes = homes(balancer).await;
    assert_eq!(homes.values().collect::<BTreeSet<_>>().len(), 4, "every cell has tenants: {homes:?}");
    for router in [a.probes, b.probes] {
        let served = scrape(router).await.sum("cofferdam_router_requests_total", &["outcome=\"success\""]);
        assert!(served >= N_TENANTS as f64, "the balancer takes turns, and sent {router} {served}");
    }
    for router in [a.data, b.data] {
        assert_eq!(self::homes(router).await, homes, "{router} disagrees on where tenants are");
    }
    one_limit_holds_over(&[a.data, b.data], "tight").await;

    fleet.kill("router-b");
    assert_eq!(self::homes(balancer).await, homes, "what one router served, the other serves");
    one_limit_holds_over(&[a.data, balancer], "tight").await;
    one_limit_holds_over(&[a.data, balancer], "narrow").await;
}

/// The cell that answers each tenant at a router or a balancer: always the same one, since all are up.
async fn homes(at: SocketAddr) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for number in 0..N_TENANTS {
        let tenant = format!("tenant-{number}");
        for _ in 0..2 {
            let answer = raw::ask(at, get("/", &tenant)).await;
            assert_eq!(answer.status(), 200, "{tenant}: {answer:?}");
            let told: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(told["tenant"], *tenant, "{told}");
            let cell = told["backend"].as_str().unwrap().to_owned();
            let before = homes.insert(tenant.clone(), cell.clone());
            assert!(before.is_none_or(|before| before == cell), "{tenant} moved to {cell}");
        }
    }
    homes
}

/// A tenant with the plan `trickle` is admitted over all of these together as often as its plan says and no more, where each
/// by itself would let it have the whole burst.
async fn one_limit_holds_over(doors: &[SocketAddr], tenant: &str) {
    // In a store that is new, and may have been emptied, buckets begin empty and fill at their rate.
    eventually("a first request that is admitted", async || {
        is_admitted(doors[0], tenant).await.then_some(())
    })
    .await;
    let (began, mut n_admitted) = (Instant::now(), 0);
    for door in doors.iter().cycle().take(2 * BURST) {
        n_admitted += usize::from(is_admitted(*door, tenant).await);
    }
    let most = BURST + (SUSTAINED * began.elapsed().as_secs_f64()).ceil() as usize;
    assert!(n_admitted <= most, "{tenant} was admitted {n_admitted} times instead of {most} at most");
}

/// Whether a request is admitted; where it is not, it was too fast.
async fn is_admitted(door: SocketAddr, tenant: &str) -> bool {
    let answer = raw::ask(door, get("/", tenant)).await;
    match answer.status() {
        200 => true,
        status => {
            assert_eq!((status, answer.problem().as_str()), (429, "tenant_rate"), "{answer:?}");
            false
        }
    }
}
