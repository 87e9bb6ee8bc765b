//! What is not done by its deadline, or is stopped, is undone: requests that waited go on where they were.

use std::time::Duration;

use super::Stage;
use crate::support::eventually;
use crate::support::load::Load;
use crate::support::metrics::scrape;
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::tell;
use crate::tunnels::ASKING;

#[tokio::test]
async fn a_stream_that_does_not_end_undoes_the_move_at_its_deadline_and_what_waited_is_served_as_before() {
    let stage = Stage::start(2).await;
    let mut hangs = raw::Client::connect(stage.routers[1].data).await;
    hangs.send(get("/hang", "acme")).await;
    stage.until(1, "a request in flight", |status| status["in_flight"] == 1).await;
    stage.begin(0, "3s").await;
    let loads = [0, 1].map(|router: usize| Load::start(stage.routers[router].data));
    let status = stage.ended(0, "undone").await;
    let why = status["last_move"]["why"].as_str().unwrap();
    assert!(why.starts_with("the time was over: 1 requests were in flight at router "), "{why}");
    stage.ended(1, "undone").await;
    for load in &loads {
        load.goes_on().await;
    }
    for load in loads {
        load.end().await;
    }
    assert!(stage.stays.lock().unwrap().iter().all(|stay| stay.cell < 2));
    assert_eq!(stage.served(1, "acme").await, "cell-a");
}

#[tokio::test]
async fn a_request_that_cannot_wait_so_long_is_refused_and_told_when_to_come_back() {
    let stage =
        Stage::with(1, "limits: { routers: 1 }\nroutes: [{ match: { path: / }, timeout: 1s }]\n").await;
    // An answer that has begun has no more time than its stream needs.
    let mut hangs = raw::Client::connect(stage.routers[0].data).await;
    hangs.send(get("/endless", "acme")).await;
    assert_eq!(hangs.head().await.second_word(), "200");
    stage.begin(0, "20s").await;
    stage.until(0, "it holds", |status| !status["move"]["routers"].as_object().unwrap().is_empty()).await;
    let refused = raw::ask(stage.routers[0].data, get("/", "acme")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (503, "tenant_moving"), "{refused:?}");
    assert_eq!(refused.field("retry-after"), Some("1"));
    let metrics = scrape(stage.routers[0].probes).await;
    assert_eq!(
        metrics.sum("cofferdam_router_refusals_total", &["level=\"tenant\"", "reason=\"moving\""]),
        1.0
    );
    drop(hangs);
    stage.ended(0, "done").await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
}

#[tokio::test]
async fn a_tunnel_is_in_flight_until_it_ends() {
    let stage = Stage::start(1).await;
    let mut tunnel = raw::Client::connect(stage.routers[0].data).await;
    tunnel.send(with_fields("GET", "/tunnel", "acme", ASKING)).await;
    assert_eq!(tunnel.head().await.second_word(), "101");
    stage.begin(0, "20s").await;
    stage.until(0, "it holds", |status| !status["move"]["routers"].as_object().unwrap().is_empty()).await;
    assert_eq!(stage.status(0).await["in_flight"], 1);
    drop(tunnel);
    stage.ended(0, "done").await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
}

#[tokio::test]
async fn an_operator_stops_a_move_and_a_command_that_dies_stops_nothing() {
    let stage = Stage::start(1).await;
    let mut long = stage.long(0, Duration::from_secs(4)).await;
    stage.begin(0, "20s").await;
    let stopped =
        tell(stage.routers[0].admin, "DELETE", "/tenants/acme/move", r#"{"author": "ann", "reason": "no"}"#)
            .await;
    assert_eq!(stopped.status(), 200, "{stopped:?}");
    let status = stage.ended(0, "undone").await;
    assert_eq!(status["last_move"]["why"], "ann stopped it: no");
    assert_eq!(stage.served(0, "acme").await, "cell-a");
    let none = tell(stage.routers[0].admin, "DELETE", "/tenants/acme/move", "").await;
    assert_eq!((none.status(), none.text()), (404, "tenant acme is not being moved\n".to_owned()));

    let admin = format!("http://{}", stage.routers[0].admin);
    let log = stage.folder.path().join("move.log");
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .args([
            "move",
            "acme",
            "--to",
            "cell-c,cell-d",
            "--timeout",
            "20s",
            "--reason",
            "r",
            "--admin",
            &admin,
        ])
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn();
    let mut command = command.unwrap();
    eventually("the command's word", async || {
        std::fs::read_to_string(&log).unwrap().contains("holding").then_some(())
    })
    .await;
    command.kill().unwrap();
    command.wait().unwrap();
    assert_eq!(long.answer().await.text(), "cell-a");
    stage.ended(0, "done").await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    stage.never_on_both();
}
