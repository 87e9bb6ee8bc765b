//! Valkey is called as Redis is.

use crate::access::works;
use crate::redis_server::RedisServer;
use crate::spend::{connected, eventually, spend, spent, within};

#[tokio::test]
async fn valkey_runs_the_script_forgets_it_and_comes_back_as_redis_does() {
    let mut server = RedisServer::start_valkey();
    let link = connected(&server.url()).await;
    // Its version of Redis is one that it stands in for, and not its own.
    let info: String = ::redis::cmd("INFO").arg("server").query(&mut server.connect()).unwrap();
    let version = info.lines().find_map(|line| line.strip_prefix("valkey_version:")).unwrap();
    assert_eq!(link.state().server_version.as_deref(), Some(version.trim_end()));
    works(&link, &server).await.unwrap();
    // The overrides' script when it was first called, and the one that decides when it was forgotten. Two that were leased and
    // never came back, and one that was spent.
    assert_eq!((link.metrics().script_loads, spent(&link, "acme").await), (2, 3));
    server.kill();
    eventually("the end of the connection", async || !link.state().is_connected()).await;
    server.start_again();
    within("a connection", link.connected()).await;
    spend(&link, "acme").await.unwrap();
    assert_eq!(spent(&link, "acme").await, 1);
}
