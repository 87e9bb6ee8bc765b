//! Whoever dies or is cut off in the middle of a move: it ends all the same, on one pair or on the other.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::Stage;
use crate::support::eventually;
use crate::support::load::Load;
use crate::support::raw::{self, get};

#[tokio::test]
async fn a_router_that_is_killed_while_it_holds_is_not_waited_for_once_it_has_left_the_roll() {
    let mut stage = Stage::start(2).await;
    let _long = stage.long(1, Duration::from_secs(60)).await;
    let load = Load::start(stage.routers[0].data);
    load.goes_on().await;
    stage.begin(0, "60s").await;
    both_hold(&stage, 0).await;
    stage.routers[1].process.child.kill().unwrap();
    stage.ended(0, "done").await;
    load.goes_on().await;
    load.end().await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    // What was in flight died with its router: nobody else was on the old cells by then.
    let stays = stage.stays.lock().unwrap().clone();
    let last = stays
        .iter()
        .filter(|stay| stay.cell < 2 && stay.ended - stay.begun < Duration::from_secs(1))
        .map(|stay| stay.ended)
        .max();
    let first = stays.iter().filter(|stay| stay.cell >= 2).map(|stay| stay.begun).min();
    assert!(last.unwrap() <= first.unwrap());
}

#[tokio::test]
async fn the_router_that_was_asked_may_die_and_another_takes_the_move_to_its_end() {
    let mut stage = Stage::start(2).await;
    let mut long = stage.long(1, Duration::from_secs(4)).await;
    stage.begin(0, "60s").await;
    both_hold(&stage, 1).await;
    stage.routers[0].process.child.kill().unwrap();
    assert_eq!(long.answer().await.text(), "cell-a");
    stage.ended(1, "done").await;
    assert_eq!(stage.served(1, "acme").await, "cell-c");
    stage.never_on_both();
}

#[tokio::test]
async fn a_router_that_is_killed_before_it_lets_requests_in_again_leaves_the_tenant_on_its_new_cells() {
    let mut stage = Stage::start(2).await;
    let mut long = stage.long(0, Duration::from_secs(4)).await;
    stage.begin(0, "60s").await;
    other_stands_still(&stage, &mut long).await;
    stage
        .until(0, "letting in", |status| status["move"]["phase"] == "letting_in" || status["move"].is_null())
        .await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    stage.routers[1].process.child.kill().unwrap();
    stage.ended(0, "done").await;
    stage.never_on_both();
}

#[tokio::test]
async fn a_router_that_stood_still_through_it_all_is_on_the_new_cells_when_it_goes_on() {
    let stage = Stage::start(2).await;
    let mut long = stage.long(0, Duration::from_secs(3)).await;
    stage.begin(0, "60s").await;
    other_stands_still(&stage, &mut long).await;
    stage.ended(0, "done").await;
    // It holds what comes until it has heard how the move ended.
    let mut client = raw::Client::connect(stage.routers[1].data).await;
    client.send(get("/", "acme")).await;
    stage.routers[1].process.signal(Signal::CONT);
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text()), (200, "cell-c".to_owned()), "{answer:?}");
    stage.ended(1, "done").await;
    stage.never_on_both();
}

#[tokio::test]
async fn while_the_store_is_away_nobody_is_served_whose_move_may_have_taken_effect_and_then_it_is_undone() {
    let mut stage = Stage::start(2).await;
    let _long = stage.long(1, Duration::from_secs(60)).await;
    stage.begin(0, "3s").await;
    both_hold(&stage, 0).await;
    stage.server.kill();
    let refused = raw::ask(stage.routers[0].data, get("/", "acme")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (503, "tenant_moving"), "{refused:?}");
    assert_eq!(stage.served(0, "globex").await, "cell-a");
    // At once, now that its time is over.
    let refused = raw::ask(stage.routers[0].data, get("/", "acme")).await;
    assert_eq!(refused.problem(), "tenant_moving");
    stage.server.start_again();
    stage.ended(0, "undone").await;
    stage.ended(1, "undone").await;
    for router in [0, 1] {
        eventually("served as before", async || {
            let answer = raw::ask(stage.routers[router].data, get("/", "acme")).await;
            (answer.status() == 200 && answer.text() == "cell-a").then_some(())
        })
        .await;
    }
}

/// The other router has said that nobody is inside, and stands still from then on; what is in flight here ends behind that.
async fn other_stands_still(stage: &Stage, long: &mut raw::Client) {
    let is_empty = |status: &Value| {
        let routers = status["move"]["routers"].as_object();
        routers.is_some_and(|all| all.values().any(|said| said["in_flight"] == 0))
    };
    stage.until(0, "the other has nobody inside", is_empty).await;
    stage.routers[1].process.signal(Signal::STOP);
    assert_eq!(long.answer().await.text(), "cell-a");
}

/// Waits until both routers hold requests back, as this one says.
async fn both_hold(stage: &Stage, router: usize) {
    let have_said = |status: &Value| status["move"]["routers"].as_object().is_some_and(|all| all.len() == 2);
    stage.until(router, "both hold", have_said).await;
}
