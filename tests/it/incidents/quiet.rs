//! Fleets in which nothing is wrong with the tenant: what happens to others is no finding of its own.

use std::net::SocketAddr;

use super::told::{ACME, PINS, explain};
use crate::support::agents::TestFleet;
use crate::support::files::in_states;
use crate::support::raw::{Client, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

async fn is_quiet(admin: SocketAddr, n_requests: usize) {
    let (said, code) = explain(&[admin], ACME).await;
    assert_eq!(code, Some(0), "{said}");
    let none = format!("and none of its {n_requests} requests of the last ");
    assert!(said.contains("  Nothing is wrong: ") && said.contains(&none), "{said}");
    let is_finding = |line: &str| line.starts_with("  ! ") || line.starts_with("  - ");
    assert!(!said.lines().any(is_finding), "{said}");
}

#[tokio::test]
async fn a_well_fleet_is_quiet() {
    let fleet = TestFleet::probed(PINS).await;
    for _ in 0..20 {
        assert_eq!(fleet.router.ask(get("/", ACME)).await.status(), 200);
    }
    is_quiet(fleet.router.admin, 20).await;
}

#[tokio::test]
async fn a_fleet_with_a_cell_that_drains_is_quiet() {
    let cells = Scripted::cells(3).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let pins = PINS.replace("pins:", "affinity: { cookie: cell }, pins:");
    let text = in_states(1, &addresses, &["active", "active", "draining"], &pins);
    let text = text.replace("state: draining", "state: draining, until: 2099-01-01T00:00:00Z");
    let router = TestRouter::start(&text);
    for _ in 0..20 {
        assert_eq!(router.ask(get("/", ACME)).await.status(), 200);
    }
    is_quiet(router.admin, 20).await;
}

#[tokio::test]
async fn a_fleet_whose_other_tenants_are_refused_is_quiet() {
    let rest = "plans: { wide: { sustained: 100k/s, burst: 100000, max_in_flight: 1000 },\n\
                tight: { sustained: 1/h, burst: 4, max_in_flight: 3 } }\n\
                tenant: { plan_of: { initech: tight }, unknown: wide }\n\
                cell: { max_in_flight: 80, tenant_share: 0.025, classes: { default: {} } }\n";
    let fleet = TestFleet::probed(&format!("{PINS}{rest}")).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(fleet.router.data).await;
        client.send(get("/hang", "initech")).await;
        held.push(client);
    }
    fleet.router.in_flight(2).await;
    for n in 0..20 {
        let refused = fleet.router.ask(get("/", "initech")).await;
        assert_eq!(refused.status(), 429, "{n}");
        assert_eq!(fleet.router.ask(get("/", ACME)).await.status(), 200);
    }
    is_quiet(fleet.router.admin, 20).await;
    let (said, code) = explain(&[fleet.router.admin], "initech").await;
    assert_eq!(code, Some(1), "{said}");
}
