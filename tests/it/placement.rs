//! Placement at the wire: who serves a tenant is what the command says.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::files::{cell_id, fleet};
use crate::support::processes::run;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

const N_CELLS: usize = 8;

/// A router over eight cells that answer with their names, and each tenant's shard as `cofferdam place` tells it.
async fn start(n_tenants: usize) -> (TestRouter, Vec<Scripted>, BTreeMap<String, Vec<String>>) {
    let cells = Scripted::cells(N_CELLS).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let text = fleet(&addresses, "");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, &text).unwrap();
    let tenants: Vec<_> = (1..=n_tenants).map(|n| format!("tenant-{n}")).collect();
    let arguments = ["place", "--fleet", file.to_str().unwrap(), "--output", "json"].into_iter();
    let arguments: Vec<_> = arguments.chain(tenants.iter().map(String::as_str)).collect();
    let placed: Value = serde_json::from_slice(&run(&arguments).stdout).unwrap();
    let shard = |row: &Value| -> (String, Vec<String>) {
        (row["tenant"].as_str().unwrap().to_owned(), serde_json::from_value(row["shard"].clone()).unwrap())
    };
    let shards = placed.as_array().unwrap().iter().map(shard).collect();
    (TestRouter::start(&text), cells, shards)
}

#[tokio::test]
async fn the_cell_that_answers_is_the_first_that_place_names() {
    // P24
    let (router, _cells, shards) = start(300).await;
    assert_eq!(shards.len(), 300);
    let mut client = raw::Client::connect(router.data).await;
    for (tenant, shard) in &shards {
        assert_eq!(client.ask(get("/", tenant)).await.text(), shard[0], "{tenant}");
    }
}

#[tokio::test]
async fn the_loss_of_a_pair_hurts_exactly_the_tenants_that_have_both_its_cells() {
    // P10: with 28 pairs, about one tenant in 28; with four fixed pairs it would be one in four.
    let (router, cells, shards) = start(280).await;
    let lost = shards["tenant-1"].clone();
    let mut kept = Vec::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if lost.contains(&cell_id(index)) { cell.stop().await } else { kept.push(cell) }
    }
    let mut client = raw::Client::connect(router.data).await;
    let (mut hurt, mut expected) = (Vec::new(), Vec::new());
    for (tenant, shard) in &shards {
        if client.ask(get("/", tenant)).await.status() != 200 {
            hurt.push(tenant);
        }
        if shard.iter().all(|cell| lost.contains(cell)) {
            expected.push(tenant);
        }
    }
    assert_eq!(hurt, expected);
    assert!((1..=30).contains(&hurt.len()), "{} of 280", hurt.len());
    assert_eq!(kept.len(), N_CELLS - 2);
}
