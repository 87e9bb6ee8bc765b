//! What becomes of a move whose tenant is held while its new cells, the fleet file or the router itself change: what it cannot have
//! when its turn comes undoes the move.

use std::time::Duration;

use h2::client::handshake;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{REST, Stage, hangs};
use crate::support::eventually;
use crate::support::load::Load;
use crate::support::metrics::scrape;
use crate::support::processes::RealRouter;
use crate::support::raw::{self, Client, get};
use crate::support::scripted::Scripted;

/// What the fleet file says of routers.
const ALONE: &str = "limits: { routers: 1 }\n";

/// A move that goes on for as long as this client's request is in flight.
async fn held(stage: &Stage) -> Client {
    let client = hangs(stage).await;
    stage.begin(0, "60s").await;
    stage.holds(0).await;
    client
}

/// What was in flight has ended, and the tenant stays where it was, for this reason.
async fn is_undone(stage: &Stage, client: Client, why: &str) {
    drop(client);
    assert_eq!(stage.ended(0, "undone").await["last_move"]["why"], why);
    assert_eq!(stage.served(0, "acme").await, "cell-a");
}

#[tokio::test]
async fn a_cell_that_dies_while_its_tenant_to_be_is_held_undoes_the_move() {
    let mut stage = Stage::start(1).await;
    let agent = Scripted::named("ready").await;
    let probed = format!("active, probe: 'http://{}'", agent.address);
    stage.reload(0, 2, &["active", "active", "active", &probed], &format!("{REST}{ALONE}")).await;
    let client = held(&stage).await;
    tokio::join!(stage.cells.remove(3).stop(), agent.stop());
    eventually("a cell that is believed down", async || {
        let cells = stage.ask(0, "/cells").await;
        (cells[3]["id"] == "cell-d" && cells[3]["up"] == false).then_some(())
    })
    .await;
    is_undone(&stage, client, "cell cell-d is believed down").await;
}

#[tokio::test]
async fn a_fleet_file_that_takes_a_new_cell_away_while_the_tenant_is_held_undoes_the_move() {
    let stage = Stage::start(1).await;
    let client = held(&stage).await;
    stage.reload(0, 2, &["active", "active", "active", "disabled"], &format!("{REST}{ALONE}")).await;
    is_undone(&stage, client, "pin of acme names cell cell-d, which is disabled").await;
}

#[tokio::test]
async fn a_fleet_file_that_allows_fewer_new_cells_while_the_tenant_is_held_undoes_the_move() {
    let stage = Stage::start(1).await;
    let client = held(&stage).await;
    let fewer = REST.replace("placement: { ", "placement: { max_new_cells: 1, ");
    stage.reload(0, 2, &[], &format!("{fewer}{ALONE}")).await;
    let why = "cell-c, cell-d would make 2 new cells within an hour, and placement.max_new_cells is 1";
    is_undone(&stage, client, why).await;
}

#[tokio::test]
async fn a_fleet_file_that_is_taken_while_the_tenant_is_held_leaves_the_move_and_who_waits_alone() {
    let stage = Stage::start(1).await;
    let client = held(&stage).await;
    let load = Load::start(stage.routers[0].data);
    stage.waiting(0, 1).await;
    for revision in 2..5 {
        let rest = REST.replace("max_in_flight: 10k", &format!("max_in_flight: {}", 10_000 + revision));
        stage.reload(0, revision, &[], &format!("{rest}{ALONE}")).await;
    }
    assert_eq!(stage.status(0).await["move"]["phase"], "holding");
    drop(client);
    stage.ended(0, "done").await;
    load.goes_on().await;
    load.end().await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    assert!(stage.stays.lock().unwrap().iter().all(|stay| stay.cell >= 2));
}

#[tokio::test]
async fn a_lone_router_that_is_killed_in_a_move_and_starts_again_in_time_takes_it_to_its_end() {
    let mut stage = Stage::with(0, ALONE).await;
    let state = stage.folder.path().join("state");
    let flags = ["--state", state.to_str().unwrap()];
    stage.routers.push(RealRouter::start("before", &stage.file(), &flags, &[]).await);
    assert_eq!(stage.served(0, "acme").await, "cell-a");
    let _client = held(&stage).await;
    stage.routers[0].process.child.kill().unwrap();
    stage.routers[0] = RealRouter::start("after", &stage.file(), &flags, &[]).await;
    stage.ended(0, "done").await;
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    stage.never_on_both();
}

#[tokio::test]
async fn more_requests_than_may_wait_are_refused_and_told_when_to_come_back_and_the_others_are_served() {
    let stage = Stage::start(1).await;
    let client = held(&stage).await;
    let (mut answers, mut connections) = (JoinSet::new(), JoinSet::new());
    for _ in 0..10 {
        let stream = TcpStream::connect(stage.routers[0].data).await.unwrap();
        let (mut requests, connection) = handshake(stream).await.unwrap();
        connections.spawn(connection);
        for _ in 0..100 {
            requests = requests.ready().await.unwrap();
            let request = http::Request::get("http://test.example/").header("x-tenant-id", "acme");
            let (answer, _) = requests.send_request(request.body(()).unwrap(), true).unwrap();
            answers.spawn(async move { answer.await.unwrap().status() });
        }
    }
    stage.waiting(0, 1_000).await;
    let refused = raw::ask(stage.routers[0].data, get("/", "acme")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (503, "tenant_moving"), "{refused:?}");
    assert!(refused.text().contains("1000 requests of the tenant wait already"), "{refused:?}");
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!(stage.served(0, "globex").await, "cell-a");
    drop(client);
    let statuses = tokio::time::timeout(Duration::from_secs(20), answers.join_all()).await.unwrap();
    assert!(statuses.len() == 1_000 && statuses.iter().all(|status| *status == 200), "{statuses:?}");
    stage.ended(0, "done").await;
    assert_eq!(scrape(stage.routers[0].probes).await.sum("cofferdam_router_held", &[]), 0.0);
}
