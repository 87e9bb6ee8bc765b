//! What was accepted last outlives a router: on disk, and in the store for all. No start is a way around the publish gate.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use cofferdam_router::{Settings, SharedStore};
use serde_json::Value;

use crate::support::eventually;
use crate::support::files::revision;
use crate::support::processes::{RealFleet, ready};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};

/// Addresses that nobody is at, for fleets that no request is sent to.
fn nowhere(n: u16) -> Vec<SocketAddr> {
    (1..=n).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
}

fn on_disk(folder: &Path) -> Settings {
    Settings { state: Some(folder.join("state")), ..settings() }
}

fn shared(server: &RedisServer) -> Settings {
    let budget = std::time::Duration::from_millis(100);
    let store = Some(SharedStore { endpoint: server.url().parse().unwrap(), budget });
    Settings { store, ..settings() }
}

/// Waits until the folder's file is of this revision.
async fn kept(folder: &Path, revision: u64) -> Value {
    eventually(&format!("revision {revision} on disk"), async || {
        let text = fs::read_to_string(folder.join("state/accepted.json")).ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        (json["revision"] == revision).then_some(json)
    })
    .await
}

async fn refused(text: &str, settings: Settings) -> String {
    match TestRouter::that_looks(text, settings).await {
        Ok(_) => panic!("it starts with\n{text}"),
        Err(why) => why,
    }
}

#[tokio::test]
async fn a_router_that_starts_is_held_to_what_it_had_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "placement: { seed: 987654321987654321 }\n";
    let start = async |text: &str| TestRouter::that_looks(text, on_disk(folder.path())).await;
    let router = start(&revision(4, &nowhere(8), secret)).await.unwrap();
    router.reload(&revision(5, &nowhere(9), secret)).await.unwrap();
    let digest = router.admin("/fleet").await["digest"].clone();
    let file = kept(folder.path(), 5).await;
    assert_eq!((&file["placement"]["digest"], &file["fleet"]), (&digest, &Value::from("test")));
    assert!(!file.to_string().contains("987654321987654321"), "the map's seed may be secret");
    drop(router);

    for (text, why) in [
        (revision(4, &nowhere(9), secret), "revision 4 is below 5, which was accepted already"),
        (revision(5, &nowhere(8), secret), "raise the revision"),
        (revision(6, &nowhere(9), ""), "the change is refused: the map's seed changes"),
        (revision(6, &nowhere(9), secret).replace("fleet: test", "fleet: other"), "fleet other is not test"),
    ] {
        let said = refused(&text, on_disk(folder.path())).await;
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!(kept(folder.path(), 5).await["placement"]["digest"], digest);
    }
    // The same again, and what the gate lets pass.
    drop(start(&revision(5, &nowhere(9), secret)).await.unwrap());
    drop(start(&revision(6, &nowhere(10), secret)).await.unwrap());
    kept(folder.path(), 6).await;
    // A reason takes it all the same, and the same words take nothing more after a start.
    let forced = |seed: u64| format!("placement: {{ seed: {seed}, force: everybody was told }}\n");
    let router = start(&revision(7, &nowhere(10), &forced(1))).await.unwrap();
    assert_eq!(router.admin("/fleet").await["forced"]["reason"], "everybody was told");
    kept(folder.path(), 7).await;
    drop(router);
    let said = refused(&revision(8, &nowhere(10), &forced(2)), on_disk(folder.path())).await;
    assert!(said.contains("the map's seed changes"), "{said}");
}

#[tokio::test]
async fn a_damaged_file_counts_as_none_and_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("state")).unwrap();
    for damage in ["", "{\"fleet\":\"test\",\"revi", "[]", "{}"] {
        fs::write(folder.path().join("state/accepted.json"), damage).unwrap();
        let router = TestRouter::that_looks(&revision(3, &nowhere(8), ""), on_disk(folder.path())).await;
        kept(folder.path(), 3).await;
        drop(router.unwrap());
    }
    // Where the digest is not that of what stands beside it, nobody can say what would move.
    let text = fs::read_to_string(folder.path().join("state/accepted.json")).unwrap();
    fs::write(folder.path().join("state/accepted.json"), text.replace("cell-a", "cell-0")).unwrap();
    let said = refused(&revision(4, &nowhere(9), ""), on_disk(folder.path())).await;
    assert!(said.contains("the map's seed changes"), "{said}");
}

#[tokio::test]
async fn routers_with_one_store_accept_one_table_for_a_revision_and_none_that_is_older() {
    let server = RedisServer::start();
    let start = async |text: &str| TestRouter::that_looks(text, shared(&server)).await;
    let one = start(&revision(4, &nowhere(8), "")).await.unwrap();
    let other = start(&revision(4, &nowhere(8), "")).await.unwrap();
    // The store has heard of revision 4 once a start with another table is refused.
    eventually("the store's word", async || {
        start(&revision(3, &nowhere(8), "")).await.is_err().then_some(())
    })
    .await;
    eventually("a reload that the store heard of", async || {
        one.reload(&revision(5, &nowhere(9), "")).await.unwrap();
        start(&revision(4, &nowhere(8), "")).await.is_err().then_some(())
    })
    .await;
    let error = other.reload(&revision(5, &nowhere(7), "")).await.unwrap_err();
    assert!(
        error.contains("revision 5 was accepted with digest") && error.contains("by another router"),
        "{error}"
    );
    assert_eq!(other.admin("/fleet").await["revision"], 4);
    let other_table = other.metrics().await;
    assert_eq!(other_table.sum("cofferdam_router_reloads_total", &["outcome=\"other_table\""]), 1.0);
    other.reload(&revision(5, &nowhere(9), "")).await.unwrap();
    one.reload(&revision(7, &nowhere(9), "")).await.unwrap();
    let error = other.reload(&revision(6, &nowhere(9), "")).await.unwrap_err();
    assert!(error.contains("revision 6 is below 7, which was accepted already"), "{error}");
    let said = refused(&revision(7, &nowhere(8), ""), shared(&server)).await;
    assert!(said.contains("raise the revision"), "{said}");
    drop(start(&revision(8, &nowhere(10), "")).await.unwrap());
}

#[tokio::test]
async fn without_its_store_a_router_goes_by_its_disk_and_tells_the_store_later() {
    let (folder, mut server) = (tempfile::tempdir().unwrap(), RedisServer::start());
    server.kill();
    let both = || Settings { state: on_disk(folder.path()).state, ..shared(&server) };
    let router = TestRouter::that_looks(&revision(4, &nowhere(8), ""), both()).await.unwrap();
    router.reload(&revision(5, &nowhere(9), "")).await.unwrap();
    kept(folder.path(), 5).await;
    let said = refused(&revision(4, &nowhere(8), ""), both()).await;
    assert!(said.contains("revision 4 is below 5"), "{said}");
    server.start_again();
    eventually("the store's word", async || {
        TestRouter::that_looks(&revision(4, &nowhere(8), ""), shared(&server)).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_tables_of_one_revision_that_were_taken_without_the_store_are_found_once_it_is_back() {
    let mut server = RedisServer::start();
    let start =
        async || TestRouter::that_looks(&revision(4, &nowhere(8), ""), shared(&server)).await.unwrap();
    let routers = [start().await, start().await];
    server.kill();
    let disputed = async || {
        let mut disputed = 0.0;
        for router in &routers {
            disputed += router.metrics().await.sum("cofferdam_router_revision_disputed", &[]);
        }
        disputed
    };
    for (router, n) in routers.iter().zip([9, 7]) {
        router.reload(&revision(5, &nowhere(n), "")).await.unwrap();
        let (digest, metrics) = (router.admin("/fleet").await["digest"].clone(), router.metrics().await);
        let digest = format!("digest={digest}");
        assert_eq!(metrics.sum("cofferdam_router_table", &["revision=\"5\"", &digest]), 1.0, "{digest}");
    }
    assert_eq!(disputed().await, 0.0);
    server.start_again();
    // Who comes second to tell knows.
    eventually("the alarm", async || (disputed().await == 1.0).then_some(())).await;
    for router in &routers {
        router.reload(&revision(6, &nowhere(8), "")).await.unwrap();
    }
    assert_eq!(disputed().await, 0.0);
}

#[tokio::test]
async fn the_command_says_why_it_does_not_start() {
    let flags = ["--state", "FOLDER/state"];
    let mut fleet = RealFleet::start(2, &flags, |cells| revision(5, cells, "")).await;
    assert!(fleet.router.log().contains("first fleet file: there is none to compare it with"));
    kept(fleet.folder.path(), 5).await;
    fleet.router.close_stdin();
    assert!(fleet.router.end().await.success());
    fleet.write(&revision(4, &fleet.addresses, ""));
    let mut second = fleet.start_successor("second", &flags);
    assert!(!second.end().await.success());
    fleet.write(&revision(6, &fleet.addresses, ""));
    let mut third = fleet.start_successor("third", &flags);
    ready(&mut third, fleet.probes).await.unwrap();
    assert!(third.log().contains("the fleet file follows the one accepted before"), "{}", third.log());
}
