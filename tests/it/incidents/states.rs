//! A tenant that is kept to one cell, limits without their store, and what operators and files have done on purpose.

use std::time::Duration;

use cofferdam_router::{Settings, SharedStore};
use serde_json::json;

use super::told::{ACME, PINS, Told, explain};
use crate::support::eventually;
use crate::support::files::{fleet, in_states, revision};
use crate::support::raw::get;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted};

pub(super) async fn confinement() -> Told {
    let mortal = || Scripted::start(|_| Play::Close);
    let (home, second) = (mortal().await, mortal().await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    router.ask(get("/", ACME)).await;
    router.ask(get("/", ACME)).await;
    let names = &["it is kept to its home cell for a minute"];
    Told::by("confinement: cells die under its requests", (names, 1), &[router.admin], ACME).await
}

/// A router over one cell that shares its limits.
async fn sharing(url: &str) -> (TestRouter, Scripted) {
    let cell = Scripted::named("cell").await;
    let store = Some(SharedStore { endpoint: url.parse().unwrap(), budget: Duration::from_millis(100) });
    let rest = "plans: { p: { sustained: 100/s, burst: 100, max_in_flight: 20 } }\n\
                tenant: { unknown: p }\nlimits: { routers: 2 }\n";
    let text = crate::support::files::alone(cell.address, rest);
    (TestRouter::with(&text, Settings { store, ..settings() }, 1), cell)
}

pub(super) async fn store_away() -> Told {
    let (router, _cell) = sharing("redis://127.0.0.1:1").await;
    for _ in 0..3 {
        router.ask(get("/", ACME)).await;
    }
    let names = &["the store of limits is away", "one of 2, 10 in flight and 50/s"];
    Told::by("store of limits away", (names, 1), &[router.admin], ACME).await
}

pub(super) async fn fresh_store() -> Told {
    let server = RedisServer::start();
    let (router, _cell) = sharing(&server.url()).await;
    let names: &[&str] = &["the store of limits has just begun to remember"];
    // It learns for some seconds only, and a busy machine may miss them: then it forgets once more.
    let told = async || {
        ::redis::cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
        for _ in 0..3 {
            router.ask(get("/", ACME)).await;
        }
        let (said, ended) = explain(&[router.admin], ACME).await;
        said.contains(names[0]).then_some((said, ended))
    };
    let (said, ended) = eventually("explain to see a store that has forgotten", told).await;
    Told { incident: "fresh store, which has forgotten", names, code: 1, said, ended }
}

const STATES: [&str; 4] = ["active", "active", "active", "quarantine"];

/// A router over three cells and one for quarantine, where an operator says this.
async fn told_to(of: &str, to: &[&str]) -> (TestRouter, Vec<Scripted>) {
    let cells = Scripted::cells(STATES.len()).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let text = in_states(1, &addresses, &STATES, "limits: { routers: 1 }\n");
    let router = TestRouter::start(&text);
    let body = json!({ "to": to, "for": "1h", "reason": "a migration", "author": "ops" }).to_string();
    let answer = router.tell("PUT", &format!("/tenants/{ACME}/{of}"), &body).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    router.ask(get("/", ACME)).await;
    (router, cells)
}

pub(super) async fn pin() -> Told {
    let (router, _cells) = told_to("pin", &["cell-b", "cell-c"]).await;
    let names = &["the operator's pin to cell-b, cell-c binds until ", "by ops: a migration"];
    Told::by("operator's pin (a state)", (names, 0), &[router.admin], ACME).await
}

pub(super) async fn quarantine() -> Told {
    let (router, _cells) = told_to("quarantine", &["cell-d"]).await;
    let names = &["the operator's quarantine to cell-d binds until ", "by ops: a migration"];
    Told::by("operator's quarantine (a state)", (names, 0), &[router.admin], ACME).await
}

pub(super) async fn rollout() -> Told {
    let cells = Scripted::cells(9).await;
    let file = |number: u64, n: usize| {
        let addresses: Vec<_> = cells[..n].iter().map(|cell| cell.address).collect();
        let rest = "placement: { movement_budget: 1/min }\nlimits: { routers: 1 }\n";
        revision(number, &addresses, rest)
    };
    let router = TestRouter::start(&file(1, 8));
    router.reload(&file(2, 9)).await.unwrap();
    let mut waits = None;
    for n in 0..500 {
        let tenant = format!("tenant-{n}");
        if router.admin(&format!("/tenants/{tenant}")).await["waits_for_release"] == true {
            waits = Some(tenant);
            break;
        }
    }
    let tenant = waits.unwrap();
    let names = &["it waits for its turn in a rollout", "revision 2"];
    Told::by("rollout that the tenant waits for (a state)", (names, 0), &[router.admin], &tenant).await
}
