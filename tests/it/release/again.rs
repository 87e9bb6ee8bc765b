//! The way to one table, gone more than once; and routers that come to it by different files.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;
use serde_json::{Value, json};

use super::{
    AT_ONCE, SLOWLY, alone, cells, file, loose, ordered, over, placed, rested, shards, shared, standing,
    start,
};
use crate::support::eventually;
use crate::support::files::revision;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, parse, settings};

#[tokio::test]
async fn a_cell_that_was_released_once_is_released_anew_when_it_comes_back() {
    let (cells, server) = (cells().await, RedisServer::start());
    for settings in [settings(), shared(&server, None)] {
        let router = start(&alone(&file(1, &cells, 8, SLOWLY)), settings).await;
        router.reload(&alone(&file(2, &cells, 9, AT_ONCE))).await.unwrap();
        over(&router).await;
        router.reload(&alone(&file(3, &cells, 8, SLOWLY))).await.unwrap();
        assert_eq!(standing(&router).await, Value::Null, "whose cell is gone does not wait");
        router.reload(&alone(&file(4, &cells, 9, "60/min"))).await.unwrap();
        loose(&router, 1).await;
        let again = standing(&router).await;
        assert!(again["n_slots"].as_u64() > Some(1000) && again["n_loose"].as_u64() < Some(30), "{again}");
    }
}

#[tokio::test]
async fn a_router_that_is_alone_begins_anew_as_well_after_it_went_back() {
    let cells = cells().await;
    let router = TestRouter::start(&alone(&file(1, &cells, 8, SLOWLY)));
    router.reload(&alone(&file(2, &cells, 9, "1000/s"))).await.unwrap();
    loose(&router, 100).await;
    ordered(&router, "stop").await;
    router.reload(&alone(&file(3, &cells, 8, SLOWLY))).await.unwrap();
    router.reload(&alone(&file(4, &cells, 9, "60/min"))).await.unwrap();
    loose(&router, 1).await;
    assert!(standing(&router).await["n_loose"].as_u64() < Some(30));
}

#[tokio::test]
async fn a_router_that_skips_a_revision_joins_the_release_that_is_under_way() {
    let (cells, server) = (cells().await, RedisServer::start());
    let old = file(1, &cells, 8, SLOWLY);
    let [one, late] = [start(&old, shared(&server, None)).await, start(&old, shared(&server, None)).await];
    one.reload(&file(2, &cells, 9, "1000/s")).await.unwrap();
    loose(&one, 100).await;
    let n_loose = ordered(&one, "stop").await["n_loose"].clone();
    let half = shards(&one).await;
    for router in [&late, &one] {
        router.reload(&file(3, &cells, 9, AT_ONCE)).await.unwrap();
        eventually("the release of revision 2", async || {
            let standing = standing(router).await;
            (standing["n_loose"] == n_loose && standing["stopped"] == json!(true)).then_some(())
        })
        .await;
    }
    rested(&[&one, &late], &n_loose, &half).await;
    ordered(&late, "go").await;
    for router in [&one, &late] {
        over(router).await;
    }
}

#[tokio::test]
async fn who_comes_late_to_a_table_that_is_released_already_makes_nobody_wait_again() {
    let (cells, server) = (cells().await, RedisServer::start());
    let old = file(1, &cells, 8, SLOWLY);
    let [one, late] = [start(&old, shared(&server, None)).await, start(&old, shared(&server, None)).await];
    one.reload(&file(2, &cells, 9, AT_ONCE)).await.unwrap();
    over(&one).await;
    // It is over at that router before the store has the word of it, which whoever starts keeps.
    eventually("the store's word that it is over", async || {
        let state = tempfile::tempdir().unwrap();
        let third = start(&file(2, &cells, 9, SLOWLY), shared(&server, Some(state.path().to_owned()))).await;
        let kept = std::fs::read(state.path().join("accepted.json")).unwrap();
        let kept: Value = serde_json::from_slice(&kept).unwrap();
        (kept.get("from").is_none() && standing(&third).await.is_null()).then_some(())
    })
    .await;
    let after = placed(&file(3, &cells, 9, SLOWLY));
    for router in [&late, &one] {
        router.reload(&file(3, &cells, 9, SLOWLY)).await.unwrap();
        assert_eq!((standing(router).await, shards(router).await), (Value::Null, after.clone()));
    }
}

#[tokio::test]
async fn a_table_that_only_others_release_from_is_built_beside_what_runs() {
    let server = RedisServer::start();
    let cells: Vec<_> = (1..=26).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let of = |number, n: usize, budget| {
        revision(number, &cells[..n], &format!("placement: {{ movement_budget: {budget} }}\n"))
    };
    let first = of(1, 24, SLOWLY);
    let [one, late] =
        [start(&first, shared(&server, None)).await, start(&first, shared(&server, None)).await];
    one.reload(&of(2, 25, AT_ONCE)).await.unwrap();
    over(&one).await;
    one.reload(&of(3, 26, SLOWLY)).await.unwrap();
    // How long the thread of the probes is held up, beside what one table takes.
    let longest_us = Arc::new(AtomicU64::new(0));
    let ticks = tokio::spawn(tick(Arc::clone(&longest_us)));
    late.reload(&of(3, 26, SLOWLY)).await.unwrap();
    // Whoever was held up to the end of it counts as well.
    tokio::time::sleep(Duration::from_millis(5)).await;
    ticks.abort();
    let begun = Instant::now();
    Placement::build(&placement_spec(&parse(&of(2, 25, SLOWLY)))).unwrap();
    let (table, longest) = (begun.elapsed(), Duration::from_micros(longest_us.load(Ordering::Relaxed)));
    assert!(longest * 2 < table, "held up for {longest:?}, and a table takes {table:?}");
    let (ours, theirs) = (standing(&late).await, standing(&one).await);
    assert!(ours["n_slots"].as_u64() > Some(1000) && ours["from"] == theirs["from"], "{ours} {theirs}");
}

/// Looks for ever how late its thread is.
async fn tick(longest_us: Arc<AtomicU64>) {
    loop {
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}
