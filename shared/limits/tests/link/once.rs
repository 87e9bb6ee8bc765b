//! A call is executed once at most: when a server has forgotten the script, and when a connection breaks under it.

use cofferdam_limits::redis::link::{Link, LinkError};

use crate::redis_server::RedisServer;
use crate::relay::{Relay, Weather};
use crate::spend::{connected, eventually, open, spend, spent, within};

fn flush_scripts(server: &RedisServer) {
    ::redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connect()).unwrap();
}

/// So many calls at once.
async fn at_once(link: &Link, n_calls: u32) -> Vec<Result<(), LinkError>> {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..n_calls {
        let link = link.clone();
        calls.spawn(async move { spend(&link, "acme").await });
    }
    within("all answers", calls.join_all()).await
}

#[tokio::test]
async fn a_forgotten_script_is_loaded_once_for_all_the_calls_that_are_on_their_way() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    flush_scripts(&server);
    let answers = at_once(&link, 200).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(spent(&link, "acme").await, 200);
    let metrics = link.metrics();
    assert_eq!((metrics.script_loads, metrics.refused), (1, 0), "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_script_that_is_flushed_again_and_again_costs_no_call_and_doubles_none() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    for round in 1..=20 {
        let calls = tokio::spawn({
            let link = link.clone();
            async move { at_once(&link, 20).await }
        });
        flush_scripts(&server);
        let answers = calls.await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(spent(&link, "acme").await, round * 20);
    }
}

#[tokio::test]
async fn a_call_whose_connection_broke_after_it_was_sent_is_not_sent_again() {
    let server = RedisServer::start();
    let relay = Relay::before(([127, 0, 0, 1], server.port()).into()).await;
    let (link, direct) =
        (connected(&format!("redis://{}", relay.address)).await, connected(&server.url()).await);
    relay.set(Weather::AnswersLost);
    let error = spend(&link, "acme").await.unwrap_err();
    assert!(matches!(error, LinkError::Broken(_)) && !error.changed_nothing(), "{error:?}");
    eventually("its execution", async || spent(&direct, "acme").await > 0).await;
    relay.set(Weather::Clear);
    within("a connection", link.connected()).await;
    assert_eq!(spent(&link, "acme").await, 1);
}

#[tokio::test]
async fn in_a_cluster_it_is_not_sent_again_either() {
    let server = RedisServer::start_cluster_of_one();
    let relay = Relay::before(([127, 0, 0, 1], server.port()).into()).await;
    let announce = |port: u16| {
        let mut config = ::redis::cmd("CONFIG");
        config.arg("SET").arg("cluster-announce-port").arg(port).exec(&mut server.connect()).unwrap();
    };
    announce(relay.address.port());
    let link = connected(&format!("redis-cluster://{}", relay.address)).await;
    assert_eq!(link.state().n_servers, 1);
    for n_broken in 1..=3 {
        relay.set(Weather::AnswersLost);
        let error = spend(&link, "acme").await.unwrap_err();
        assert!(matches!(error, LinkError::Broken(_)), "{error:?}");
        relay.set(Weather::Clear);
        within("a connection", link.connected()).await;
        assert_eq!(spent(&link, "acme").await, n_broken);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_harms_no_other() {
    let server = RedisServer::start();
    let link = open(&server.url());
    within("a connection", link.connected()).await;
    for _ in 0..50 {
        // Dropped at its first wait, be it before or after it was written.
        let call = spend(&link, "acme");
        tokio::select! {
            biased;
            _ = call => {}
            () = std::future::ready(()) => {}
        }
    }
    spend(&link, "globex").await.unwrap();
    assert_eq!(spent(&link, "globex").await, 1);
    assert!(spent(&link, "acme").await <= 50);
}
