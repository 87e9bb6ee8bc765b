//! What operators have changed outlives the router that was told, in a folder of its own: with a store that is away, and without
//! any.

use std::fs;
use std::path::Path;

use cofferdam_router::{Settings, SharedStore};

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::get;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;

const REST: &str = "
plans: { free: { sustained: 1/h, burst: 3, max_in_flight: 10 } }
tenant: { unknown: free }
";

/// A router that keeps its state in `folder`, and shares it through the store at `url`.
fn start(cell: &Scripted, folder: &Path, url: Option<&str>) -> TestRouter {
    let store = url.map(|url| SharedStore {
        endpoint: url.parse().unwrap(),
        budget: std::time::Duration::from_millis(100),
    });
    let settings = Settings { store, state: Some(folder.join("state")), ..settings() };
    TestRouter::with(&alone(cell.address, REST), settings, 1)
}

async fn set(router: &TestRouter, burst: u64, lasting: &str) {
    let body = format!("{{\"burst\": {burst}, \"for\": \"{lasting}\"}}");
    eventually("a change that is taken", async || {
        (router.tell("PUT", "/tenants/acme/limits", &body).await.status() == 200).then_some(())
    })
    .await;
}

async fn burst(router: &TestRouter) -> u64 {
    router.ask(get("/", "acme")).await.number("ratelimit-limit")
}

/// Waits until the folder's file has these words.
async fn has(folder: &Path, words: &str) {
    eventually(words, async || {
        let text = fs::read_to_string(folder.join("state/overrides.json")).unwrap_or_default();
        text.contains(words).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_router_that_starts_while_the_store_is_away_has_what_it_last_knew_and_tells_a_store_that_has_forgotten()
 {
    let (cell, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    let mut server = RedisServer::start();
    let router = start(&cell, folder.path(), Some(&server.url()));
    set(&router, 2, "1h").await;
    has(folder.path(), "\"burst\":2").await;
    server.kill();
    router.router.shutdown().await;
    let router = start(&cell, folder.path(), Some(&server.url()));
    assert_eq!(burst(&router).await, 2);
    server.start_again();
    let (other, elsewhere) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    let other = start(&other, elsewhere.path(), Some(&server.url()));
    eventually("the override", async || (burst(&other).await == 2).then_some(())).await;
    // What the store has counts before what the disk had.
    set(&other, 1, "1h").await;
    drop(router);
    let router = start(&cell, folder.path(), Some(&server.url()));
    eventually("the store's word", async || (burst(&router).await == 1).then_some(())).await;
}

#[tokio::test]
async fn without_a_store_it_is_on_the_disk_before_it_is_answered_and_ends_as_was_said() {
    let (cell, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    let router = start(&cell, folder.path(), None);
    set(&router, 2, "1h").await;
    drop(router);
    let router = start(&cell, folder.path(), None);
    assert_eq!(burst(&router).await, 2);
    set(&router, 1, "1s").await;
    drop(router);
    eventually("the end of the change", async || {
        (burst(&start(&cell, folder.path(), None)).await == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_damaged_file_counts_as_none_and_is_written_anew() {
    let (cell, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    fs::create_dir(folder.path().join("state")).unwrap();
    for damage in
        ["", "{\"limits\":{\"acme\":{\"until_ms\":99", "[]", "{\"limits\":{\"acme\":{\"until_ms\":\"x\"}}}"]
    {
        fs::write(folder.path().join("state/overrides.json"), damage).unwrap();
        let router = start(&cell, folder.path(), None);
        assert_eq!(burst(&router).await, 3, "{damage}");
        set(&router, 2, "1h").await;
        drop(router);
        assert_eq!(burst(&start(&cell, folder.path(), None)).await, 2);
    }
    let left = fs::read_dir(folder.path().join("state")).unwrap();
    let mut left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["accepted.json", "overrides.json"]);
}
