//! What operators have changed outlives the router that was told, in a folder of its own: with a store that is away, and without
//! any.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_limits::redis::MAX_OVERRIDES;
use cofferdam_router::{Settings, SharedStore};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::metrics::scrape;
use crate::support::processes::RealRouter;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings, tell};
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

/// A file of overrides in `folder`, and a router that is a process which starts with it.
async fn start_with(cell: &Scripted, folder: &Path, overrides: &Value) -> RealRouter {
    let state = folder.join("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("overrides.json"), overrides.to_string()).unwrap();
    let file = folder.join("fleet.yaml");
    fs::write(&file, alone(cell.address, REST)).unwrap();
    RealRouter::start("router", &file, &["--state", state.to_str().unwrap()], &[]).await
}

/// An override of a burst that ends in an hour.
fn of_burst(burst: u64) -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    json!({ "until_ms": since + 3_600_000, "since_ms": since, "burst": burst })
}

#[tokio::test]
async fn what_is_damaged_in_a_file_is_told_and_counted_and_the_rest_binds() {
    let (cell, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    let overrides = json!({
        "limits": { "acme": of_burst(2), "globex": { "until_ms": "x" }, "initech": 7 },
        "placement": ["acme"],
        "later": { "acme": {}, "globex": {} },
    });
    let router = start_with(&cell, folder.path(), &overrides).await;
    assert_eq!(raw::ask(router.data, get("/", "acme")).await.number("ratelimit-limit"), 2);
    let metrics = scrape(router.probes).await;
    let left_out = |kind: &str| metrics.sum(&format!("cofferdam_{kind}_overrides_left_out"), &[]);
    assert_eq!((left_out("limits"), left_out("placement")), (2.0, 1.0));
    let log = router.process.log();
    for words in [
        ["an override on disk cannot be read", "tenant=\"globex\"", "kind=\"limits\""],
        ["an override on disk cannot be read", "tenant=\"initech\"", "kind=\"limits\""],
        ["overrides taken from disk", "n_overrides=1 n_left_out=2", "kind=\"limits\""],
        ["the overrides of this kind on disk are damaged", "ERROR", "kind=\"placement\""],
        ["overrides of an unknown kind on disk do not bind", "n_overrides=2", "kind=\"later\""],
    ] {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(has), "{words:?}: {log}");
    }
    // What a later version has written stays for it.
    let body = r#"{"burst": 1, "for": "1h"}"#;
    assert_eq!(tell(router.admin, "PUT", "/tenants/acme/limits", body).await.status(), 200);
    let text = fs::read_to_string(folder.path().join("state/overrides.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["later"], overrides["later"]);
}

#[tokio::test]
async fn a_file_with_more_overrides_than_there_may_be_gives_as_many_as_that() {
    let (cell, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
    let limits: serde_json::Map<_, _> =
        (0..MAX_OVERRIDES + 2).map(|n| (format!("t{n:05}"), of_burst(2))).collect();
    let router = start_with(&cell, folder.path(), &json!({ "limits": limits })).await;
    let metrics = scrape(router.probes).await;
    assert_eq!(metrics.sum("cofferdam_limits_overrides", &[]), MAX_OVERRIDES as f64);
    assert_eq!(metrics.sum("cofferdam_limits_overrides_left_out", &[]), 2.0);
    let body = r#"{"burst": 1, "for": "1h"}"#;
    let full = tell(router.admin, "PUT", "/tenants/acme/limits", body).await;
    assert!(full.status() == 409 && full.text().contains("no room for another"), "{full:?}");
}
