//! Behind Sentinel: the master is called, whoever it is.

use cofferdam_limits::redis::link::LinkError;

use crate::redis_server::sentinel::Watched;
use crate::spend::{connected, eventually, open, spend, spent, within};

#[tokio::test]
async fn whom_the_sentinels_name_is_called_and_after_its_death_the_one_that_follows() {
    let mut watched = Watched::start();
    let link = connected(&watched.url()).await;
    spend(&link, "acme").await.unwrap();
    watched.servers[0].kill();
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    within("another master", link.connected()).await;
    spend(&link, "acme").await.unwrap();
    assert_eq!(link.metrics().connections, 2);
    // It is the other server, and it takes writes.
    assert_eq!(watched.role_of(1).as_deref(), Some("master"));
}

#[tokio::test]
async fn a_master_that_steps_down_alive_is_left() {
    let watched = Watched::start();
    let link = connected(&watched.url()).await;
    spend(&link, "acme").await.unwrap();
    eventually("a failover", async || watched.fail_over().is_ok()).await;
    // A call may still fail while the master changes; it must come right by itself.
    eventually("a call to the new master", async || {
        let roles = [watched.role_of(0), watched.role_of(1)];
        let is_new = roles == [Some("slave".to_owned()), Some("master".to_owned())];
        spend(&link, "acme").await.is_ok() && is_new
    })
    .await;
    assert!(spent(&link, "acme").await > 0);
}

#[tokio::test]
async fn sentinels_that_do_not_know_the_service_or_are_not_there_are_named() {
    let watched = Watched::start();
    let url = watched.url().replace("/limits", "/other");
    let link = open(&url);
    eventually("a reason", async || link.state().last_error.is_some()).await;
    let reason = link.state().last_error.unwrap();
    assert!(reason.contains("does not know it") && reason.contains("\"other\""), "{reason}");
    let link = open("redis-sentinel://127.0.0.1:1/limits");
    eventually("a reason", async || link.state().last_error.is_some()).await;
    let reason = link.state().last_error.unwrap();
    assert!(reason.contains("127.0.0.1:1: "), "{reason}");
}
