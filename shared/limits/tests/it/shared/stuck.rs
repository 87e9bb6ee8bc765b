//! One master of a cluster stands still: its own tenants are decided by shares, and nobody else notices anything.

use std::time::Duration;

use ::redis::cmd;
use cofferdam_limits::redis::{Mode, Sharing};
use cofferdam_limits::{Admission, Demand, Levels, Permit};
use cofferdam_model::{Level, TenantId};

use super::{Router, eventually, fleet};
use crate::contract::{capped, id, levels};
use crate::redis_server::cluster::RedisCluster;

/// Two routers' limit: with both alone, each may have two.
const LIMIT: u32 = 4;
const TTL: Duration = Duration::from_secs(1);
/// Longer than a busy machine keeps the answers of a master back that does not stand still.
const BUDGET: Duration = Duration::from_secs(2);

/// Which master has a tenant's keys.
fn master_of(cluster: &RedisCluster, tenant: &TenantId) -> usize {
    let key = fleet().permits(tenant);
    let slot = cmd("CLUSTER").arg("KEYSLOT").arg(key.as_str()).query(&mut cluster.nodes[0].connect());
    cluster.master_of(slot.unwrap())
}

impl Router {
    /// Admits as many as it may, and at most `n`.
    async fn take(&self, tenant: &TenantId, plan: &Levels, n: usize) -> Vec<Permit> {
        let mut permits = Vec::new();
        while permits.len() < n {
            let admitted = match self.limits.admit(&Demand::new(tenant, 1, plan)) {
                Admission::Admitted(permit) => Ok(permit),
                Admission::Refused(refusal) => Err(refusal),
                Admission::Pending(pending) => pending.await,
            };
            let Ok(permit) = admitted else { break };
            permits.push(permit);
        }
        permits
    }
}

#[tokio::test]
async fn tenants_of_the_other_masters_stay_exact_and_ask_on() {
    let cluster = RedisCluster::of(3);
    for node in &cluster.nodes {
        // Else the other masters would refuse everything as soon as they have found that one is away.
        let mut keep = cmd("CONFIG");
        keep.arg("SET").arg("cluster-require-full-coverage").arg("no");
        keep.exec(&mut node.connect()).unwrap();
    }
    let sharing =
        Sharing { mode: Mode::Exact, ttl: TTL, budget: BUDGET, routers: 2, ..Sharing::new(fleet()) };
    let router = Router::start_at(&cluster.url(), "sessiona", sharing).await;
    let plan = levels(&[capped(Level::Tenant, LIMIT)]);
    let tenants: Vec<_> = (0..24).map(|n| id(&format!("tenant-{n}"))).collect();
    let masters: Vec<_> = tenants.iter().map(|tenant| master_of(&cluster, tenant)).collect();
    // A slot that has just begun grants nothing for one TTL.
    for tenant in &tenants {
        while router.take(tenant, &plan, LIMIT as usize + 1).await.len() < LIMIT as usize {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let stuck = masters[0];
    cluster.nodes[stuck].pause();
    let is_away = async || {
        drop(router.take(&tenants[0], &plan, 1).await);
        router.store.sharing().is_away
    };
    while !is_away().await {}
    let alone = router.store.sharing().alone;
    for _ in 0..3 {
        for (tenant, _) in tenants.iter().zip(&masters).filter(|(_, master)| **master != stuck) {
            // All of the limit, and no more: neither router's share would be that much.
            assert_eq!(router.take(tenant, &plan, 10).await.len(), LIMIT as usize, "{tenant}");
        }
    }
    assert_eq!(router.store.sharing().alone, alone, "nobody of them was decided without the store");
    for (tenant, _) in tenants.iter().zip(&masters).filter(|(_, master)| **master == stuck) {
        assert_eq!(router.take(tenant, &plan, 10).await.len(), LIMIT as usize / 2, "{tenant}");
    }
    cluster.nodes[stuck].resume();
    eventually("it is back", || !router.store.sharing().is_away).await;
}
