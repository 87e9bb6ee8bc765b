//! A cluster: calls go where their keys lie, and follow them.

use cofferdam_limits::redis::Fleet;
use cofferdam_limits::redis::link::{Link, LinkError};
use cofferdam_model::{Alphabet, TenantId};

use crate::redis_server::RedisServer;
use crate::redis_server::cluster::RedisCluster;
use crate::spend::{connected, eventually, spend, spent, within};

/// The slot of a tenant, as a server reckons it.
fn slot_of(server: &RedisServer, tenant: &str) -> u16 {
    let id = TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap();
    let key = Fleet::parse("f").unwrap().tokens(&id);
    ::redis::cmd("CLUSTER").arg("KEYSLOT").arg(key.as_str()).query(&mut server.connect()).unwrap()
}

/// Calls for a tenant until one is answered.
async fn until_answered(link: &Link, tenant: &str) {
    eventually("an answer", async || spend(link, tenant).await.is_ok()).await;
}

#[tokio::test]
async fn calls_go_to_the_server_that_has_their_keys() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    assert_eq!(link.state().n_servers, 3);
    let mut n_on = [0; 3];
    for n in 0..30 {
        let tenant = format!("tenant-{n}");
        spend(&link, &tenant).await.unwrap();
        assert_eq!(spent(&link, &tenant).await, 1);
        n_on[cluster.master_of(slot_of(&cluster.nodes[0], &tenant))] += 1;
    }
    assert!(n_on.iter().all(|n| *n > 0), "{n_on:?}");
    // Nobody had to be sent on.
    assert_eq!(link.metrics().redirections, 0);
}

#[tokio::test]
async fn one_address_is_enough_to_find_the_others() {
    let cluster = RedisCluster::of(3);
    let link = connected(&format!("redis-cluster://127.0.0.1:{}", cluster.nodes[1].port())).await;
    assert_eq!((link.state().n_servers, link.state().n_connected), (3, 3));
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_while_it_moves_and_after() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    spend(&link, "acme").await.unwrap();
    let slot = slot_of(&cluster.nodes[0], "acme");
    let (from, to) = (cluster.master_of(slot), (cluster.master_of(slot) + 1) % 3);
    cluster.begin_move(slot, from, to);
    // Its keys are gone over, the slot is not: the old master says ASK.
    cluster.move_keys(slot, from, to);
    let before = link.metrics().redirections;
    spend(&link, "acme").await.unwrap();
    assert_eq!((spent(&link, "acme").await, link.metrics().redirections), (2, before + 2));
    cluster.end_move(slot, to);
    spend(&link, "acme").await.unwrap();
    assert_eq!(spent(&link, "acme").await, 3);
    let after = link.metrics().redirections;
    spend(&link, "acme").await.unwrap();
    assert_eq!(link.metrics().redirections, after);
}

#[tokio::test]
async fn a_script_that_is_flushed_everywhere_is_loaded_by_each_server_once() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    for node in &cluster.nodes {
        ::redis::cmd("SCRIPT").arg("FLUSH").exec(&mut node.connect()).unwrap();
    }
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..90 {
        let link = link.clone();
        calls.spawn(async move { spend(&link, &format!("tenant-{}", n % 30)).await.unwrap() });
    }
    within("all answers", calls.join_all()).await;
    assert_eq!(link.metrics().script_loads, 3);
    for n in 0..30 {
        assert_eq!(spent(&link, &format!("tenant-{n}")).await, 3);
    }
}

#[tokio::test]
async fn a_failover_that_was_asked_for_is_followed() {
    let cluster = RedisCluster::with_replicas(3, 1);
    let link = connected(&cluster.url()).await;
    until_answered(&link, "acme").await;
    let slot = slot_of(&cluster.nodes[0], "acme");
    let old = cluster.master_of(slot);
    let replica = &cluster.nodes[old + 3];
    ::redis::cmd("CLUSTER").arg("FAILOVER").exec(&mut replica.connect()).unwrap();
    eventually("the failover", async || cluster.master_of(slot) == old + 3).await;
    until_answered(&link, "acme").await;
    eventually("everybody connected", async || link.state().is_connected()).await;
}

#[tokio::test]
async fn a_master_that_dies_costs_its_own_slots_alone_until_its_replica_takes_over() {
    let mut cluster = RedisCluster::with_replicas(3, 1);
    let link = connected(&cluster.url()).await;
    let tenants: Vec<_> = (0..30).map(|n| format!("tenant-{n}")).collect();
    let slots: Vec<_> = tenants.iter().map(|tenant| slot_of(&cluster.nodes[0], tenant)).collect();
    let dead = cluster.master_of(slots[0]);
    let on_dead: Vec<_> = slots.iter().map(|slot| cluster.master_of(*slot) == dead).collect();
    cluster.nodes[dead].kill();
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    for (tenant, on_dead) in tenants.iter().zip(&on_dead) {
        let answer = spend(&link, tenant).await;
        if *on_dead {
            assert_eq!(answer, Err(LinkError::NotConnected));
        } else {
            assert!(answer.is_ok() || is_down(&answer), "{answer:?}");
        }
    }
    for tenant in &tenants {
        until_answered(&link, tenant).await;
    }
    within("everybody connected", link.connected()).await;
}

/// What the living say for a moment, once they have found that somebody died.
fn is_down(answer: &Result<(), LinkError>) -> bool {
    matches!(answer, Err(LinkError::Refused { code, .. }) if code == "CLUSTERDOWN")
}

#[tokio::test]
async fn a_cluster_that_was_away_as_a_whole_is_called_again() {
    let mut cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    cluster.nodes.iter_mut().for_each(RedisServer::kill);
    eventually("the end of all connections", async || link.state().n_connected == 0).await;
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    cluster.nodes.iter_mut().for_each(RedisServer::start_again);
    within("everybody connected", link.connected()).await;
    until_answered(&link, "acme").await;
}
