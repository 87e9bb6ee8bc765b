//! Moves whose routers were away at their deadline, and for longer than they refuse a tenant: whoever comes next undoes them.

use std::time::{SystemTime, UNIX_EPOCH};

use cofferdam_limits::redis::Fleet;
use serde_json::{Value, json};

use super::{Stage, TO_C_AND_D, hangs};
use crate::support::clock;
use crate::support::eventually;
use crate::support::processes::RealRouter;
use crate::support::routers::tell;

#[tokio::test]
async fn a_lone_router_that_is_killed_in_a_move_and_starts_long_after_its_deadline_undoes_it() {
    let mut stage = Stage::with(0, "limits: { routers: 1 }\n").await;
    let library = clock::later(stage.folder.path());
    let state = stage.folder.path().join("state");
    let flags = ["--state", state.to_str().unwrap()];
    stage.routers.push(RealRouter::start("before", &stage.file(), &flags, &[]).await);
    let _hangs = hangs(&stage).await;
    stage.begin(0, "60s").await;
    eventually("its word on the disk", async || {
        let text = std::fs::read_to_string(state.join("overrides.json")).unwrap();
        text.contains(r#""alone":{"holding":1}"#).then_some(())
    })
    .await;
    stage.routers[0].process.child.kill().unwrap();
    // Its deadline was about four minutes ago.
    let late = [("LD_PRELOAD", library.as_str()), (clock::LATER_S, "300")];
    stage.routers[0] = RealRouter::start("after", &stage.file(), &flags, &late).await;
    is_undone_at_once(&stage, 0).await;
    can_be_changed(&stage, 0).await;
    let why = stage.status(0).await["last_move"]["why"].clone();
    assert_eq!(why, "the time was over: 1 requests were in flight at router alone");
}

#[tokio::test]
async fn a_move_that_all_routers_left_in_the_store_long_before_they_come_back_is_undone_by_one_of_them() {
    let mut stage = Stage::with(0, "limits: { routers: 2 }\n").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let (since, deadline) = (now - 200_000, now - 120_000);
    let pin = json!({
        "to": ["cell-c", "cell-d"], "since_ms": since, "until_ms": now + 3_600_000, "author": "ops", "reason": "r",
    });
    let moving = json!({
        "id": "old", "phase": "holding", "since_ms": since, "deadline_ms": deadline, "pin": pin,
        "routers": { "gone": { "holding": 0 } },
    });
    // Its end comes first.
    let record = format!(r#"{{"until_ms":{},"moving":{moving}}}"#, now + 3_000_000);
    let book = stage.server.overrides(&Fleet::parse("test").unwrap(), "placement").await;
    book.keep(&[("acme", &record)]).await.unwrap();
    for name in ["one", "two"] {
        let router = stage.router(name).await;
        stage.routers.push(router);
    }
    for router in [0, 1] {
        is_undone_at_once(&stage, router).await;
    }
    can_be_changed(&stage, 1).await;
}

/// The move is undone, and nobody is held back for it.
async fn is_undone_at_once(stage: &Stage, router: usize) {
    assert_eq!(stage.served(router, "acme").await, "cell-a");
    let status = stage.ended(router, "undone").await;
    assert_eq!(status["last_move"]["to"], json!(["cell-c", "cell-d"]));
    let log = stage.routers[router].process.log();
    assert!(!log.contains("its requests are held"), "{log}");
}

/// The tenant's cells can be changed again.
async fn can_be_changed(stage: &Stage, router: usize) {
    let change = |lasting: &str| format!("{{{TO_C_AND_D}, \"for\": \"{lasting}\"}}");
    let pinned = tell(stage.routers[router].admin, "PUT", "/tenants/acme/pin", &change("1h")).await;
    assert_eq!(pinned.status(), 200, "{pinned:?}");
    let ended = r#"{"author": "ops", "reason": "a test"}"#;
    let unpinned = tell(stage.routers[router].admin, "DELETE", "/tenants/acme/pin", ended).await;
    assert_eq!(unpinned.status(), 200, "{unpinned:?}");
    let shown: Value = serde_json::from_slice(&unpinned.body).unwrap();
    assert_eq!(shown["override"]["pin"], Value::Null);
}
