//! What a network does to the link between one router and its store, and that the link comes back by itself.

use cofferdam_limits::redis::Script;
use cofferdam_limits::redis::link::{Link, LinkError};

use crate::redis_server::RedisServer;
use crate::relay::{Relay, Way, Weather};
use crate::spend::{connected, eventually, spend, spent, within};

/// A server, a link to it through a relay, and one beside the relay.
async fn through_a_relay() -> (RedisServer, Relay, Link, Link) {
    let server = RedisServer::start();
    let relay = Relay::before(([127, 0, 0, 1], server.port()).into()).await;
    let url = format!("redis://{}", relay.address);
    let link = Link::open(url.parse().unwrap(), Script::sync());
    within("a connection", link.connected()).await;
    let direct = connected(&server.url()).await;
    (server, relay, link, direct)
}

#[tokio::test]
async fn a_cut_link_is_noticed_without_a_call_and_comes_back() {
    let (_server, relay, link, direct) = through_a_relay().await;
    relay.set(Weather::Cut);
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
    // Nobody else is concerned.
    spend(&direct, "acme").await.unwrap();
    relay.set(Weather::Clear);
    within("a connection", link.connected()).await;
    eventually("an answer", async || spend(&link, "acme").await.is_ok()).await;
}

#[tokio::test]
async fn a_link_that_loses_everything_one_way_is_given_up_after_one_call_and_comes_back() {
    for weather in [Weather::Held(Way::Requests), Weather::Held(Way::Answers), Weather::Silent] {
        let (_server, relay, link, direct) = through_a_relay().await;
        relay.set(weather);
        let error = spend(&link, "acme").await.unwrap_err();
        assert!(matches!(error, LinkError::Late(_)) && !error.changed_nothing(), "{weather:?}: {error:?}");
        eventually("the end of the connection", async || !link.state().is_connected()).await;
        assert_eq!(spend(&link, "acme").await, Err(LinkError::NotConnected));
        spend(&direct, "acme").await.unwrap();
        relay.set(Weather::Clear);
        within("a connection", link.connected()).await;
        eventually("an answer", async || spend(&link, "acme").await.is_ok()).await;
        // What was late was executed once, or not at all.
        let (spent, late) = (spent(&direct, "acme").await, link.metrics().late);
        assert!((2..=2 + late).contains(&spent), "{weather:?}: {spent} of which {late} late");
    }
}
