//! Drills: faults that an operator let loose with `cofferdam drill`.

use super::told::{ACME, PINS, Told};
use crate::support::agents::TestFleet;
use crate::support::processes::run_at;
use crate::support::raw::get;

const ROUTES: &str = "routes: [{ match: { path: / }, timeout: 2s }]\n";

/// Lets a drill loose at the tenant's home, and sends some requests.
async fn drilled(incident: &'static str, drill: &str, names: &'static [&'static str]) -> Told {
    let fleet = TestFleet::probed(&format!("{PINS}{ROUTES}")).await;
    let output = run_at(fleet.cells[0].admin, &format!("drill {drill} --class default --for 2m")).await;
    assert!(output.status.success(), "{output:?}");
    let probed = async || {
        let cells = fleet.router.admin("/cells").await;
        cells[0]["drills"].as_array().is_some_and(|drills| !drills.is_empty()).then_some(())
    };
    crate::support::eventually("the router to hear of the drill", probed).await;
    for _ in 0..3 {
        fleet.router.ask(get("/", ACME)).await;
    }
    Told::by(incident, (names, 1), &[fleet.router.admin], ACME).await
}

pub(super) async fn hang() -> Told {
    drilled("drill: hang", "hang", &["drill", "hang", "cell-a (home)"]).await
}

pub(super) async fn error() -> Told {
    let names = &["3 of 3 requests", "answered 503 on cell-a (home) by a drill"];
    drilled("drill: errors", "error 503", names).await
}

pub(super) async fn latency() -> Told {
    let names = &["3 of 3 requests", "held up on cell-a (home) by a drill of latency"];
    drilled("drill: latency", "latency 100ms", names).await
}
