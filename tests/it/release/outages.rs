//! A release over starts of its routers and while its store is gone.

use serde_json::{Value, json};

use super::{
    AT_ONCE, SLOWLY, alone, cells, file, loose, order, ordered, over, placed, rested, shards, shared,
    standing, start, told,
};
use crate::support::redis::RedisServer;
use crate::support::routers::settings;

/// How far a router's release is.
async fn n_loose(of: &crate::support::routers::TestRouter) -> u64 {
    standing(of).await["n_loose"].as_u64().unwrap()
}

#[tokio::test]
async fn a_router_that_is_alone_goes_on_where_it_was_after_a_start() {
    let (cells, folder) = (cells().await, tempfile::tempdir().unwrap());
    let on_disk = || cofferdam_router::Settings { state: Some(folder.path().join("state")), ..settings() };
    let of = |number, n, budget| alone(&file(number, &cells, n, budget));
    let router = start(&of(1, 8, SLOWLY), on_disk()).await;
    router.reload(&of(2, 9, "500/s")).await.unwrap();
    loose(&router, 100).await;
    let before = n_loose(&router).await;
    router.router.shutdown().await;
    // It goes on from there, and no slot goes back meanwhile.
    let router = start(&of(2, 9, "500/s"), on_disk()).await;
    assert!(n_loose(&router).await >= before);
    loose(&router, before + 100).await;
    let stopped = ordered(&router, "stop").await["n_loose"].clone();
    let half = shards(&router).await;
    router.router.shutdown().await;
    let router = start(&of(2, 9, AT_ONCE), on_disk()).await;
    assert_eq!(standing(&router).await["stopped"], true);
    rested(&[&router], &stopped, &half).await;
    assert_eq!(ordered(&router, "go").await["stopped"], false);
    over(&router).await;
    assert_eq!(shards(&router).await, placed(&of(2, 9, SLOWLY)));
    // What is over is not begun anew, and damage on disk is no reason not to start.
    router.router.shutdown().await;
    std::fs::write(folder.path().join("state/release.json"), "{\"digest\":").unwrap();
    assert_eq!(standing(&start(&of(2, 9, SLOWLY), on_disk()).await).await, Value::Null);
}

#[tokio::test]
async fn no_slot_moves_while_the_store_is_gone_and_the_release_goes_on_with_it() {
    let (cells, mut server, folder) = (cells().await, RedisServer::start(), tempfile::tempdir().unwrap());
    let state = || Some(folder.path().join("state"));
    let (old, new) = (file(1, &cells, 8, SLOWLY), file(2, &cells, 9, "300/s"));
    let [first, second] =
        [start(&old, shared(&server, state())).await, start(&old, shared(&server, None)).await];
    for router in [&first, &second] {
        router.reload(&new).await.unwrap();
        loose(router, 100).await;
    }
    server.kill();
    for what in ["stop", "go"] {
        let (status, text) = order(&first, what).await;
        assert!(status == 503 && text.contains("nothing was changed"), "{status} {text}");
    }
    let (left, right) = (standing(&first).await, standing(&second).await);
    assert_eq!((&left["stopped"], &right["stopped"]), (&json!(false), &json!(false)));
    for (router, standing) in [(&first, &left), (&second, &right)] {
        rested(&[router], &standing["n_loose"], &shards(router).await).await;
    }
    // A router that starts meanwhile has what it had.
    let half = shards(&first).await;
    first.router.shutdown().await;
    let first = start(&new, shared(&server, state())).await;
    rested(&[&first], &left["n_loose"], &half).await;
    // The store, which has forgotten everything, hears how far it was, and counts from there.
    server.start_again();
    told(&server).await;
    let most = n_loose(&first).await.max(n_loose(&second).await);
    for router in [&first, &second] {
        loose(router, most + 100).await;
    }
    assert_eq!(ordered(&second, "stop").await["stopped"], true);
    for router in [&first, &second] {
        router.reload(&file(2, &cells, 9, AT_ONCE)).await.unwrap();
    }
    ordered(&first, "go").await;
    for router in [&first, &second] {
        over(router).await;
        assert_eq!(shards(router).await, placed(&new));
    }
}

#[tokio::test]
async fn a_router_that_starts_while_the_store_is_gone_knows_that_somebody_stopped_the_release() {
    let (cells, mut server, folder) = (cells().await, RedisServer::start(), tempfile::tempdir().unwrap());
    let state = || Some(folder.path().join("state"));
    let router = start(&file(1, &cells, 8, SLOWLY), shared(&server, state())).await;
    router.reload(&file(2, &cells, 9, "300/s")).await.unwrap();
    loose(&router, 100).await;
    let n_loose = ordered(&router, "stop").await["n_loose"].clone();
    let half = shards(&router).await;
    server.kill();
    router.router.shutdown().await;
    let router = start(&file(2, &cells, 9, AT_ONCE), shared(&server, state())).await;
    assert_eq!(standing(&router).await["stopped"], true);
    server.start_again();
    told(&server).await;
    rested(&[&router], &n_loose, &half).await;
}
