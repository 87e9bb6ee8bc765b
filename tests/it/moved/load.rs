//! Moves under load.

use std::time::Duration;

use serde_json::json;

use super::Stage;
use crate::support::eventually;
use crate::support::load::Load;
use crate::support::metrics::scrape;
use crate::support::raw::{self, get};

#[tokio::test]
async fn a_move_under_load_through_three_routers_loses_no_request_and_serves_none_on_both_pairs() {
    let stage = Stage::start(3).await;
    let loads: Vec<_> = stage.routers.iter().map(|router| Load::start(router.data)).collect();
    for load in &loads {
        load.goes_on().await;
    }
    let begun = stage.begin(0, "20s").await;
    assert_eq!(begun["id"], begun["move"]["id"]);
    assert_eq!(
        (&begun["move"]["to"], &begun["move"]["phase"]),
        (&json!(["cell-c", "cell-d"]), &json!("holding"))
    );
    for router in 0..3 {
        let status = stage.ended(router, "done").await;
        assert_eq!(status["last_move"]["to"], json!(["cell-c", "cell-d"]));
    }
    for load in &loads {
        load.goes_on().await;
    }
    for load in loads {
        load.end().await;
    }
    stage.never_on_both();
    for router in 0..3 {
        assert_eq!(stage.served(router, "acme").await, "cell-c");
        assert_eq!(stage.served(router, "globex").await, "cell-a");
    }
    let mut ends = 0.0;
    for router in &stage.routers {
        ends += scrape(router.probes).await.sum("cofferdam_placement_moves_total", &["done"]);
    }
    assert_eq!(ends, 1.0, "one of them took it to its end");
}

#[tokio::test]
async fn new_requests_wait_for_those_in_flight_and_other_tenants_do_not_notice() {
    let stage = Stage::start(2).await;
    // It is at the other router that the request is in flight.
    let mut long = stage.long(1, Duration::from_secs(6)).await;
    stage.begin(0, "20s").await;
    let held = async |router: usize| {
        let mut client = raw::Client::connect(stage.routers[router].data).await;
        client.send(get("/", "acme")).await;
        client
    };
    let waits = async |router: usize| {
        eventually("a request that waits", async || {
            let waiting = scrape(stage.routers[router].probes).await.sum("cofferdam_router_held", &[]);
            (waiting == 1.0).then_some(())
        })
        .await;
    };
    stage
        .until(1, "both hold", |status| {
            status["move"]["routers"].as_object().is_some_and(|all| all.len() == 2)
        })
        .await;
    let (mut here, mut there) = (held(0).await, held(1).await);
    waits(0).await;
    waits(1).await;
    // Others are served meanwhile: both requests still wait afterwards.
    for router in [0, 1, 0, 1] {
        assert_eq!(stage.served(router, "globex").await, "cell-a");
    }
    waits(0).await;
    waits(1).await;
    let status = stage.status(0).await;
    let in_flight: u64 = status["move"]["routers"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|said| said["in_flight"].as_u64())
        .sum();
    assert_eq!(in_flight, 1, "{status:#}");
    assert_eq!(long.answer().await.text(), "cell-a");
    for client in [&mut here, &mut there] {
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.text()), (200, "cell-c".to_owned()));
    }
    stage.ended(0, "done").await;
    stage.never_on_both();
}

#[tokio::test]
async fn one_router_alone_moves_a_tenant_without_a_store() {
    let stage = Stage::with(0, "limits: { routers: 1 }\n").await;
    let router = crate::support::processes::RealRouter::start("alone", &stage.file(), &[], &[]).await;
    let load = Load::start(router.data);
    load.goes_on().await;
    let stage = Stage { routers: vec![router], ..stage };
    stage.begin(0, "20s").await;
    stage.ended(0, "done").await;
    load.goes_on().await;
    load.end().await;
    stage.never_on_both();
}
