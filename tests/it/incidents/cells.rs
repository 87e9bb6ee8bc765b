//! Cells and backends that are away, fail, are left alone, or are slow.

use std::time::Duration;

use super::told::{ACME, PINS, Told};
use crate::support::agents::TestFleet;
use crate::support::files::fleet;
use crate::support::raw::{get, post};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Refusing, Scripted, answer, ok};

/// A backend that fails at `/fail`, dies at `/die`, is slow at `/slow`, hangs at `/hang`, and answers everything else.
async fn backend() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/fail" | "/pay" => Play::Answer(answer("500 Internal Server Error", "", "failed")),
        "/die" => Play::Die,
        "/slow" => Play::Late(Duration::from_millis(1_200), ok("late")),
        "/hang" => Play::Hang,
        _ => Play::Answer(ok("well")),
    })
    .await
}

async fn before_backends(rest: &str) -> TestFleet {
    TestFleet::probed_before(&format!("{PINS}{rest}"), [backend().await, backend().await]).await
}

async fn asked(fleet: &TestFleet, path: &str, tenants: &[&str], n: usize) {
    for tenant in tenants.iter().cycle().take(n * tenants.len()) {
        fleet.router.ask(get(path, tenant)).await;
    }
}

/// Waits until the router has heard of an open breaker, by its next probe.
async fn hears_of_breakers(fleet: &TestFleet) {
    crate::support::eventually("the router to hear of an open breaker", async || {
        let cells = fleet.router.admin("/cells").await;
        cells[0]["open_breakers"].as_array().is_some_and(|open| !open.is_empty()).then_some(())
    })
    .await;
}

pub(super) async fn dependency_breaker() -> Told {
    let rest = "routes: [{ match: { path: /pay }, dependency: payments }]\n\
                cell: { dependencies: { payments: { breaker: { failures: 2 } } } }\n";
    let fleet = before_backends(rest).await;
    asked(&fleet, "/pay", &[ACME, "initech"], 4).await;
    hears_of_breakers(&fleet).await;
    let names = &["breaker", "dependency payments", "open on cell-a (home)"];
    Told::by("breaker of a dependency open", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn backend_breaker() -> Told {
    let fleet = before_backends("cell: { breaker: { failures: 2 } }\n").await;
    asked(&fleet, "/fail", &[ACME, "initech"], 4).await;
    asked(&fleet, "/", &[ACME], 10).await;
    hears_of_breakers(&fleet).await;
    let names = &["breaker", "backend", "open", "cell-a (home)"];
    Told::by("breaker of a backend open, another cell serves", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn dead_backend() -> Told {
    let fleet = TestFleet::before(PINS, [backend().await, backend().await]).await;
    fleet.router.ask(post("/die", "initech", b"x")).await;
    asked(&fleet, "/", &[ACME], 5).await;
    let names = &["cell-a (home) has no backend: its agent is up"];
    Told::by("dead backend behind a live agent, another cell serves", (names, 1), &[fleet.router.admin], ACME)
        .await
}

pub(super) async fn all_backends_dead() -> Told {
    let fleet = TestFleet::before(PINS, [backend().await, backend().await]).await;
    fleet.router.ask(post("/die", "initech", b"x")).await;
    fleet.router.ask(post("/die", "initech", b"x")).await;
    asked(&fleet, "/", &[ACME], 5).await;
    let names = &["5 of 5 requests", "has no backend: its agent is up"];
    Told::by("both backends dead behind live agents", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn dead_cell() -> Told {
    let (dead, second) = (Refusing::new(), Scripted::named("second").await);
    let router = TestRouter::start(&fleet(&[dead.address, second.address], PINS));
    for _ in 0..5 {
        assert_eq!(router.ask(get("/", ACME)).await.status(), 200);
    }
    let names = &["cell-a (home) is down"];
    Told::by("dead cell, another one serves", (names, 1), &[router.admin], ACME).await
}

pub(super) async fn all_cells_dead() -> Told {
    let (dead, second) = (Refusing::new(), Refusing::new());
    let router = TestRouter::start(&fleet(&[dead.address, second.address], PINS));
    for _ in 0..5 {
        assert_eq!(router.ask(get("/", ACME)).await.status(), 503);
    }
    let names = &["all its cells are down"];
    Told::by("both cells dead", (names, 1), &[router.admin], ACME).await
}

pub(super) async fn slow_backend() -> Told {
    let fleet = before_backends("").await;
    asked(&fleet, "/slow", &[ACME], 3).await;
    let names = &["answers of class default from cell-a (home) are slow: 1s"];
    Told::by("slow backend", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn timeouts() -> Told {
    let fleet = before_backends("routes: [{ match: { path: / }, timeout: 300ms }]\n").await;
    asked(&fleet, "/hang", &[ACME], 3).await;
    let names = &["3 of 3 requests", "had no answer in time", "cell-a (home)"];
    Told::by("backend that hangs, until the route's timeout", (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn failing_backend() -> Told {
    let fleet = before_backends("").await;
    asked(&fleet, "/fail", &[ACME], 4).await;
    asked(&fleet, "/", &[ACME], 2).await;
    let names = &["4 of 6 requests", "failed: the backend of cell-a (home) answered 500"];
    Told::by("backend that answers 500", (names, 1), &[fleet.router.admin], ACME).await
}
