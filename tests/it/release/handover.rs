//! A release of a router without a store that hands over: what operators say of it is kept, and one process at a time moves it on.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use cofferdam_proxy::handover::claim;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{AT_ONCE, SLOWLY, alone};
use crate::support::eventually;
use crate::support::files::revision;
use crate::support::metrics::scrape;
use crate::support::processes::{Process, RealFleet};
use crate::support::raw::{Answer, Client, get};
use crate::support::routers::tell;

const FLAGS: [&str; 4] = ["--handover", "FOLDER/router.sock", "--state", "FOLDER/state"];

/// Some slots each second, and far from all within a test.
const STEADILY: &str = "600/min";

fn file(number: u64, cells: &[SocketAddr], budget: &str) -> String {
    alone(&revision(number, cells, &format!("placement: {{ movement_budget: {budget} }}\n")))
}

async fn ordered(fleet: &RealFleet, order: &str) -> Answer {
    tell(fleet.admin, "POST", &format!("/placement/release/{order}"), "").await
}

async fn standing(fleet: &RealFleet) -> Value {
    let shown = tell(fleet.admin, "GET", "/placement/release", "").await;
    serde_json::from_slice::<Value>(&shown.body).unwrap()["release"].clone()
}

/// What a file of the router's folder says.
fn on_disk(fleet: &RealFleet, name: &str) -> Value {
    serde_json::from_slice(&fs::read(fleet.folder.path().join("state").join(name)).unwrap()).unwrap()
}

fn reload(fleet: &RealFleet, number: u64, budget: &str) {
    // With one cell more, which nobody has to ask.
    let cells = [&fleet.addresses[..], &[([127, 0, 0, 1], 1).into()]].concat();
    fleet.write(&file(number, &cells, budget));
    fleet.router.signal(Signal::HUP);
}

/// A router with a release that goes on steadily, and has let a slot loose.
async fn releasing() -> RealFleet {
    let fleet = RealFleet::start(4, &FLAGS, |cells| file(1, cells, SLOWLY)).await;
    reload(&fleet, 2, STEADILY);
    eventually("a slot that is loose", async || {
        (standing(&fleet).await["n_loose"].as_u64()? > 0).then_some(())
    })
    .await;
    fleet
}

/// Starts a successor and waits until it has followed. Its predecessor is given back.
async fn follow(fleet: &mut RealFleet, name: &str) -> Process {
    let next = fleet.start_successor(name, &FLAGS);
    eventually("a successor", async || {
        next.log().contains("the process that ran before hands over").then_some(())
    })
    .await;
    std::mem::replace(&mut fleet.router, next)
}

#[tokio::test]
async fn a_stop_at_the_successor_stands_while_its_predecessor_drains_and_after() {
    let mut fleet = releasing().await;
    // A request that no cell answers keeps the predecessor.
    fleet.cells.iter().for_each(|cell| cell.signal(Signal::STOP));
    let mut held = Client::connect(fleet.data).await;
    held.send(get("/", "acme")).await;
    eventually("a connection that is seen", async || {
        (scrape(fleet.probes).await.sum("cofferdam_router_connections_open", &[]) > 0.0).then_some(())
    })
    .await;
    let mut old = follow(&mut fleet, "next").await;
    assert_eq!(ordered(&fleet, "stop").await.status(), 200);
    let stopped = on_disk(&fleet, "release.json");
    assert_eq!(stopped["n_orders"], json!(1));
    tokio::time::sleep(Duration::from_millis(1700)).await;
    assert!(old.ended().is_none(), "{}", old.log());
    assert_eq!(on_disk(&fleet, "release.json"), stopped);
    drop(held);
    assert_eq!(old.end().await.code(), Some(0));
    let mut next = follow(&mut fleet, "last").await;
    assert_eq!(next.end().await.code(), Some(0));
    let shown = standing(&fleet).await;
    assert_eq!((&shown["stopped"], &shown["n_loose"]), (&json!(true), &stopped["n_loose"]), "{shown:#}");
}

#[tokio::test]
async fn from_when_its_sockets_are_handed_on_a_lone_router_moves_no_release_on_unless_nobody_follows() {
    let fleet = releasing().await;
    let claimed = claim(&fleet.folder.path().join("router.sock"), "router").await.unwrap().unwrap();
    let (progress, accepted) = (on_disk(&fleet, "release.json"), on_disk(&fleet, "accepted.json"));
    assert!(!accepted["from"].is_null(), "{accepted:#}");
    for order in ["stop", "go"] {
        let refused = ordered(&fleet, order).await;
        assert_eq!((refused.status(), refused.field("retry-after")), (503, Some("1")), "{refused:?}");
        assert!(refused.text().starts_with("another process takes this one's place"), "{refused:?}");
    }
    // It would be over at once.
    reload(&fleet, 2, AT_ONCE);
    eventually("the file that is reloaded", async || {
        (standing(&fleet).await["per_minute"].as_u64()? > 1_000_000).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1700)).await;
    assert_eq!(on_disk(&fleet, "release.json"), progress);
    assert_eq!(on_disk(&fleet, "accepted.json"), accepted);
    drop(claimed);
    eventually("the end of the release once nobody follows", async || {
        on_disk(&fleet, "accepted.json")["from"].is_null().then_some(())
    })
    .await;
    assert_eq!(standing(&fleet).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_order_that_was_taken_stands_after_each_handover() {
    let mut fleet = releasing().await;
    for n in 0..5 {
        let next = fleet.start_successor(&format!("next{n}"), &FLAGS);
        let mut old = std::mem::replace(&mut fleet.router, next);
        let (mut is_stopped, mut n_taken) = (None, 0_u32);
        while old.ended().is_none() {
            let stop = !is_stopped.unwrap_or(false);
            match ordered(&fleet, if stop { "stop" } else { "go" }).await.status() {
                200 => (is_stopped, n_taken) = (Some(stop), n_taken + 1),
                503 => {}
                other => panic!("{other}"),
            }
        }
        assert_eq!(old.end().await.code(), Some(0));
        assert!(n_taken > 2, "{n_taken}");
        let shown = standing(&fleet).await;
        assert_eq!(shown["stopped"].as_bool(), is_stopped, "after {n_taken} orders: {shown:#}");
        let orders = on_disk(&fleet, "release.json")["n_orders"].as_u64().unwrap();
        assert_eq!(Some(orders % 2 == 1), is_stopped);
    }
}
