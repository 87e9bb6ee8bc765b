//! One server: how it is reached, and what happens when it goes away and comes back.

use std::time::{Duration, Instant};

use cofferdam_limits::redis::Script;
use cofferdam_limits::redis::link::{DEFAULT_TIMEOUT, Link, LinkError, Policy};

use crate::heard::Heard;
use crate::redis_server::RedisServer;
use crate::spend::{call, connected, eventually, open, spend, spent, within};

#[tokio::test]
async fn calls_go_over_tcp_and_over_a_unix_socket() {
    let server = RedisServer::start();
    for url in [server.url(), server.unix_url()] {
        let link = connected(&url).await;
        spend(&link, "acme").await.unwrap();
        let state = link.state();
        assert!(state.is_connected() && state.policy == Policy::NoEviction, "{state:?}");
        assert_eq!((state.n_servers, state.n_connected, state.last_error), (1, 1, None));
        assert!(state.server_version.unwrap().starts_with(|c: char| c.is_ascii_digit()));
    }
    assert_eq!(spent(&connected(&server.url()).await, "acme").await, 2);
}

#[tokio::test]
async fn a_database_other_than_the_first_is_another_truth() {
    let server = RedisServer::start();
    let (first, third) = (connected(&server.url()).await, connected(&format!("{}/2", server.url())).await);
    spend(&third, "acme").await.unwrap();
    assert_eq!((spent(&first, "acme").await, spent(&third, "acme").await), (0, 1));
}

#[tokio::test]
async fn plain_commands_are_answered_and_an_error_of_the_server_is_told() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    let mut set = ::redis::cmd("SET");
    set.arg("k").arg("v");
    assert_eq!(link.command(set).await, Ok(::redis::Value::Okay));
    let mut wrong = ::redis::cmd("HGET");
    wrong.arg("k").arg("f");
    let error = link.command(wrong).await.unwrap_err();
    assert!(matches!(&error, LinkError::Refused { code, .. } if code == "WRONGTYPE"), "{error:?}");
    assert_eq!((link.metrics().calls, link.metrics().refused), (2, 1));
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_is_not_there() {
    let mut server = RedisServer::start();
    server.kill();
    let link = open(&server.url());
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    eventually("a reason", async || link.state().last_error.is_some()).await;
    let reason = link.state().last_error.unwrap();
    assert!(reason.contains(&format!("127.0.0.1:{}: ", server.port())), "{reason}");
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    assert!(!link.state().is_connected());
    server.start_again();
    within("a connection", link.connected()).await;
    spend(&link, "acme").await.unwrap();
    let metrics = link.metrics();
    assert_eq!((metrics.calls, metrics.not_connected, metrics.connections), (3, 2, 1));
}

#[tokio::test]
async fn a_server_that_was_killed_is_called_again_when_it_is_back() {
    let mut server = RedisServer::start();
    let link = connected(&server.url()).await;
    spend(&link, "acme").await.unwrap();
    server.kill();
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    server.start_again();
    within("a connection", link.connected()).await;
    spend(&link, "acme").await.unwrap();
    let metrics = link.metrics();
    // The script is loaded as a connection begins: the server that forgot it never has to say so.
    assert_eq!((metrics.connections, metrics.disconnections, metrics.script_loads), (2, 1, 0));
}

#[tokio::test]
async fn a_server_that_says_nothing_any_more_is_given_up_and_taken_again() {
    let server = RedisServer::start();
    let link = Link::open(server.url().parse().unwrap(), Script::sync());
    within("a connection", link.connected()).await;
    server.pause();
    let begun = Instant::now();
    assert_eq!(spend(&link, "acme").await, Err(LinkError::Late(DEFAULT_TIMEOUT)));
    assert!(begun.elapsed() >= DEFAULT_TIMEOUT);
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    // From here on nobody waits.
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    assert!(link.state().last_error.unwrap().contains("silent"));
    server.resume();
    within("a connection", link.connected()).await;
    eventually("an answer", async || spend(&link, "acme").await.is_ok()).await;
    assert_eq!(link.metrics().late, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn calls_come_from_any_thread_and_runtime() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let link = link.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..50 {
                        spend(&link, "acme").await.unwrap();
                    }
                });
            })
        })
        .collect();
    eventually("the workers' end", async || workers.iter().all(std::thread::JoinHandle::is_finished)).await;
    assert_eq!(spent(&link, "acme").await, 150);
    let metrics = link.metrics();
    assert_eq!(metrics.latency_buckets.iter().sum::<u64>(), metrics.calls);
    assert!(metrics.latency_sum > Duration::ZERO);
}

#[tokio::test]
async fn a_runtime_that_ends_takes_its_connections_with_it_and_callers_are_told() {
    let server = RedisServer::start();
    let url = server.url();
    let opened = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(connected(&url))
    });
    let link = opened.join().unwrap();
    assert_eq!(within("an error", link.call(&call("acme", 1))).await, Err(LinkError::NotConnected));
}

#[tokio::test]
async fn a_link_that_nobody_has_any_more_closes_its_connection() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    let clone = link.clone();
    drop(link);
    spend(&clone, "acme").await.unwrap();
    drop(clone);
    let clients = || ::redis::cmd("CLIENT").arg("LIST").query::<String>(&mut server.connect()).unwrap();
    eventually("no connection but the one that asks", async || clients().lines().count() == 1).await;
}

#[tokio::test]
async fn a_server_that_evicts_is_reported_by_its_policy() {
    let heard = Heard::start();
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let link = connected(&server.url()).await;
    assert_eq!(link.state().policy, Policy::Evicts("allkeys-lru".to_owned()));
    let text = heard.text();
    assert!(text.lines().any(|line| line.contains("WARN") && line.contains("allkeys-lru")), "{text}");
    // It is worth a warning, and no reason not to go on.
    spend(&link, "acme").await.unwrap();
}

#[tokio::test]
async fn a_replica_is_not_taken_for_a_server_and_one_that_becomes_one_is_left() {
    let (master, server) = (RedisServer::start(), RedisServer::start());
    let link = connected(&server.url()).await;
    let mut follow = ::redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(master.port()).exec(&mut server.connect()).unwrap();
    let error = spend(&link, "acme").await.unwrap_err();
    assert!(error.changed_nothing(), "{error:?}");
    eventually("the connection to end, with a reason", async || {
        let state = link.state();
        !state.is_connected() && state.last_error.is_some_and(|error| error.contains("replica"))
    })
    .await;
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    let mut lead = ::redis::cmd("REPLICAOF");
    lead.arg("NO").arg("ONE").exec(&mut server.connect()).unwrap();
    within("a connection", link.connected()).await;
    spend(&link, "acme").await.unwrap();
}
