//! Limits of the fleet, and places of a cell, that are used up.

use super::told::{ACME, PINS, Told};
use crate::support::agents::TestFleet;
use crate::support::raw::{Client, get};

/// A fleet with this plan for everybody.
async fn fleet(plan: &str, rest: &str) -> TestFleet {
    TestFleet::start(&format!("{PINS}plans: {{ p: {{ {plan} }} }}\ntenant: {{ unknown: p }}\n{rest}")).await
}

const WIDE: &str = "sustained: 100k/s, burst: 100000, max_in_flight: 1000";

async fn asked(fleet: &TestFleet, path: &str, n: usize) {
    for _ in 0..n {
        fleet.router.ask(get(path, ACME)).await;
    }
}

/// Requests of `tenant` that hold what they have.
async fn held(fleet: &TestFleet, path: &str, tenant: &str, n: u32) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..n {
        let mut client = Client::connect(fleet.router.data).await;
        client.send(get(path, tenant)).await;
        clients.push(client);
    }
    fleet.router.in_flight(n).await;
    let in_use = async || (fleet.cells[0].in_use("").await == f64::from(n)).then_some(());
    crate::support::eventually("places in use", in_use).await;
    clients
}

pub(super) async fn tenant_rate() -> Told {
    let fleet = fleet("sustained: 1/h, burst: 2, max_in_flight: 50", "").await;
    asked(&fleet, "/", 5).await;
    let names = &["3 of 5 requests", "were refused: faster than its plan allows (1/h, burst 2)"];
    Told::by("tenant rate", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn tenant_concurrency() -> Told {
    let fleet = fleet("sustained: 100k/s, burst: 100000, max_in_flight: 1", "").await;
    let _held = held(&fleet, "/hang", ACME, 1).await;
    asked(&fleet, "/", 3).await;
    let names = &["3 of 3 requests", "its plan allows 1 in flight"];
    Told::by("tenant concurrency", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn route_limit() -> Told {
    let routes = "routes: [{ match: { path: /search }, limit: { sustained: 1/h, burst: 1 } }]\n";
    let fleet = fleet(WIDE, routes).await;
    asked(&fleet, "/search", 3).await;
    asked(&fleet, "/", 3).await;
    let names = &["2 of 6 requests", "faster than route * /search allows (1/h, burst 1)"];
    Told::by("route limit", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn quota() -> Told {
    let fleet = fleet(&format!("{WIDE}, quota: {{ 1d: 3 }}"), "").await;
    asked(&fleet, "/", 5).await;
    let names = &["2 of 5 requests", "the quota of its plan is used up (3 in 86400 s)"];
    Told::by("quota", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn ceiling() -> Told {
    let fleet = fleet(WIDE, "ceiling: { sustained: 1/h, burst: 2 }\n").await;
    fleet.router.ask(get("/", "initech")).await;
    asked(&fleet, "/", 3).await;
    let names = &["2 of 3 requests", "faster than the whole fleet's ceiling"];
    Told::by("fleet ceiling", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn share() -> Told {
    let cell = "cell: { max_in_flight: 8, tenant_share: 0.25, classes: { default: {} } }\n";
    let fleet = fleet(WIDE, cell).await;
    let _held = held(&fleet, "/hang", ACME, 2).await;
    asked(&fleet, "/", 3).await;
    let names = &["3 of 3 requests", "its share of class default on cell-a (home): 2 of 8 places"];
    Told::by("tenant's share of a class in a cell", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn class_full() -> Told {
    let cell = "cell: { max_in_flight: 8, tenant_share: 1, classes: { default: { ceiling: 1 } } }\n";
    let fleet = fleet(WIDE, cell).await;
    let _held = held(&fleet, "/hang", "initech", 1).await;
    asked(&fleet, "/", 1).await;
    let names = &["1 of 1 requests", "class default is full on cell-a (home): 1 places"];
    Told::by("class full, by another tenant", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn dependency_cap() -> Told {
    let rest = "routes: [{ match: { path: /pay }, dependency: payments }]\n\
                cell: { max_in_flight: 8, tenant_share: 1, dependencies: { payments: { max_in_flight: 1 } } }\n";
    let fleet = fleet(WIDE, rest).await;
    let _held = held(&fleet, "/pay/hang", "initech", 1).await;
    asked(&fleet, "/pay", 2).await;
    let names = &["2 of 2 requests", "the cap of dependency payments", "cell-a (home)", "max_in_flight: 1"];
    Told::by("cap of a dependency", (names, 1), &[fleet.router.admin], ACME).await
}
