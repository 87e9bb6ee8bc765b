//! What cannot be is refused with a reason, and changes nothing.

use cofferdam_limits::redis::Fleet;

use super::{Cells, ENDED, REST, STATES, json_of, others, patient, pin, place, quarantine, served, to};
use crate::support::clock;
use crate::support::eventually;
use crate::support::processes::RealRouter;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings, tell};

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let cells = Cells::start().await;
    let mut states = STATES;
    states[6] = "disabled";
    let router = TestRouter::with(&cells.file(1, &states, REST), settings(), 1);
    let before = place(&router, "acme").await;
    let nobody = to("cell-a cell-b", "1h").replace("ops", "");
    let long = to("cell-a cell-b", "1h").replace("a test", &"x".repeat(201));
    for (path, body, status, why) in [
        ("acme/pin", String::new(), 400, "the body is not what is asked for here"),
        ("acme/pin", "{\"cells\": []}".to_owned(), 400, "unknown field `cells`"),
        ("acme/pin", to("", "1h"), 400, "pin of acme has 0 cells, and a shard 2"),
        ("acme/pin", to("cell-a", "1h"), 400, "pin of acme has 1 cells, and a shard 2"),
        ("acme/pin", to("cell-a cell-b cell-c", "1h"), 400, "pin of acme has 3 cells, and a shard 2"),
        ("acme/pin", to("cell-a cell-a", "1h"), 400, "pin of acme names the cell cell-a twice"),
        ("acme/pin", to("cell-a cell-z", "1h"), 400, "pin of acme names the unknown cell cell-z"),
        ("acme/pin", to("cell-a !", "1h"), 400, "to: name \"!\" has the character"),
        ("acme/pin", to("cell-a cell-g", "1h"), 400, "pin of acme names cell cell-g, which is disabled"),
        ("acme/pin", to("cell-a cell-h", "1h"), 400, "pin of acme names cell cell-h, which is quarantine"),
        ("acme/quarantine", to("cell-a", "1h"), 400, "quarantine of acme names cell cell-a, which is active"),
        ("acme/pin", to("cell-a cell-b", "0s"), 400, "for: \"0s\" is outside 1s to 30d"),
        ("acme/pin", to("cell-a cell-b", "31d"), 400, "for: \"31d\" is outside 1s to 30d"),
        ("acme/pin", to("cell-a cell-b", "-1h"), 400, "for: \"-1h\" is not a time"),
        ("acme/pin", r#"{"to": ["cell-a", "cell-b"], "reason": "r"}"#.to_owned(), 400, "for is missing"),
        ("acme/pin", r#"{"to": ["cell-a", "cell-b"], "for": "1h"}"#.to_owned(), 400, "reason is missing"),
        ("acme/pin", nobody, 400, "author is missing"),
        ("acme/quarantine", r#"{"for": "1h", "reason": "r"}"#.to_owned(), 400, "author is missing"),
        ("acme/pin", long, 400, "reason: it exceeds 200 bytes"),
        ("ACME/pin", to("cell-a cell-b", "1h"), 400, "tenant id has 'A' at 0"),
    ] {
        let answer = router.tell("PUT", &format!("/tenants/{path}"), &body).await;
        assert!(answer.status() == status && answer.text().contains(why), "{path} {body}: {answer:?}");
    }
    for (body, why) in [
        ("", "reason is missing"),
        (r#"{"author": "ops"}"#, "reason is missing"),
        (r#"{"reason": "r"}"#, "author is missing"),
        (r#"{"reason": "r", "author": ""}"#, "author is missing"),
        (r#"{"why": 1}"#, "unknown field `why`"),
    ] {
        for path in ["pin", "quarantine"] {
            let answer = router.tell("DELETE", &format!("/tenants/acme/{path}"), body).await;
            assert!(answer.status() == 400 && answer.text().contains(why), "{path} {body}: {answer:?}");
        }
    }
    assert_eq!(place(&router, "acme").await, before);
    assert!(router.admin("/placement").await["overrides"].as_array().unwrap().is_empty());
    let refusals = router.metrics().await.sum("cofferdam_placement_changes_total", &["refused"]);
    assert_eq!(refusals, 29.0);
}

#[tokio::test]
async fn a_tenant_that_the_fleet_does_not_know_has_no_cells_to_change() {
    let cells = Cells::start().await;
    let known = REST.replace("unknown: free", "unknown: refuse, plan_of: { acme: free }");
    let router = TestRouter::with(&cells.file(1, &STATES, &known), settings(), 1);
    let refused = pin(&router, "initech", &to("cell-a cell-b", "1h")).await;
    assert_eq!((refused.status(), refused.text()), (404, "tenant initech is not in this fleet\n".to_owned()));
    json_of(&pin(&router, "acme", &to("cell-a cell-b", "1h")).await);
}

#[tokio::test]
async fn without_a_store_nothing_is_changed_unless_the_file_says_that_there_is_one_router() {
    let cells = Cells::start().await;
    for limits in ["limits: { routers: 2 }", "limits: { mode: auto }"] {
        let rest = REST.replace("limits: { routers: 1 }", limits);
        let router = TestRouter::with(&cells.file(1, &STATES, &rest), settings(), 1);
        for refused in [
            pin(&router, "acme", &to("cell-a cell-b", "1h")).await,
            quarantine(&router, "acme", &to("", "1h")).await,
            router.tell("DELETE", "/tenants/acme/pin", ENDED).await,
        ] {
            assert_eq!(refused.status(), 409, "{refused:?}");
            assert!(refused.text().starts_with("there is no store by which other routers would hear of it"));
        }
    }
}

#[tokio::test]
async fn a_quarantine_needs_cells_that_are_there_for_it() {
    let cells = Cells::start().await;
    let rest = REST.replace(", quarantine: { mallory: [cell-i] }", "");
    let router = TestRouter::with(&cells.file(1, &["active"; 9], &rest), settings(), 1);
    let refused = quarantine(&router, "acme", &to("", "1h")).await;
    assert!(refused.status() == 400 && refused.text().contains("no cell whose state is quarantine"));
}

#[tokio::test]
async fn the_file_says_how_far_a_tenant_may_get_about() {
    let cells = Cells::start().await;
    let rest = REST.replace("placement: { ", "placement: { max_new_cells: 1, ");
    let router = TestRouter::with(&cells.file(1, &STATES, &rest), settings(), 1);
    let (own, other) = (place(&router, "acme").await.0, others(&router, "acme").await);
    let refused = pin(&router, "acme", &to(&other[..2].join(" "), "1h")).await;
    assert!(
        refused.status() == 409 && refused.text().contains("placement.max_new_cells is 1"),
        "{refused:?}"
    );
    json_of(&pin(&router, "acme", &to(&format!("{} {}", other[0], own[0]), "1h")).await);
    assert_eq!(served(&router, "acme").await, other[0]);
}

/// A router whose clock is hours ahead of the store's, or behind it where they are negative.
async fn a_wrong_clock(hours: i32, way: &str) {
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let fleet = Fleet::parse("test").unwrap();
    server.begin_epochs(&fleet);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, cells.file(1, &STATES, REST)).unwrap();
    let (library, later) = (clock::later(folder.path()), (hours * 3600).to_string());
    let wrong = [("LD_PRELOAD", library.as_str()), (clock::LATER_S, &later)];
    let router = RealRouter::start("wrong", &file, &["--store", &server.url()], &wrong).await;
    let right = cells.router(patient(&server.url()));
    eventually("pins", async || {
        let answer = pin(&right, "acme", &to("cell-a cell-b", "1h")).await;
        (answer.status() == 200).then_some(())
    })
    .await;
    json_of(&quarantine(&right, "globex", &to("", "1h")).await);
    json_of(&pin(&right, "initech", &to("cell-a cell-b", "1s")).await);
    let book = server.overrides(&fleet, "placement").await;
    let before = book.all().await.unwrap();
    for (method, path, body) in [
        ("PUT", "acme/pin", to("cell-c cell-d", "1h")),
        ("PUT", "hooli/quarantine", to("", "1h")),
        ("DELETE", "acme/pin", ENDED.to_owned()),
        ("DELETE", "globex/quarantine", ENDED.to_owned()),
        ("PUT", "acme/move", r#"{"to": ["cell-c", "cell-d"], "author": "ops", "reason": "r"}"#.to_owned()),
    ] {
        let refused = eventually("a store", async || {
            let refused = tell(router.admin, method, &format!("/tenants/{path}"), &body).await;
            let is_early = ["no connection to the store", "which routers live"];
            (!is_early.iter().any(|early| refused.text().contains(early))).then_some(refused)
        })
        .await;
        assert_eq!(refused.status(), 503, "{method} {path}: {refused:?}");
        let why = format!("{way} the store's, and may be 1s apart: nothing was changed");
        assert!(refused.text().contains(&why), "{method} {path}: {refused:?}");
    }
    assert_eq!(book.all().await.unwrap(), before);
    // An hour is over on a clock that is ahead, and a second has not begun on one that is behind.
    let reason = async |tenant: &str| {
        let view = json_of(&tell(router.admin, "GET", &format!("/tenants/{tenant}"), "").await);
        view["reason"].as_str().unwrap().to_owned()
    };
    for (tenant, bound) in [("acme", "pin"), ("globex", "quarantine"), ("initech", "slot")] {
        eventually(tenant, async || (reason(tenant).await == bound).then_some(())).await;
    }
}

#[tokio::test]
async fn a_router_whose_clock_is_ahead_makes_no_changes_and_judges_ends_by_the_stores_clock() {
    a_wrong_clock(2, "ahead of").await;
}

#[tokio::test]
async fn a_router_whose_clock_is_behind_makes_no_changes_and_judges_ends_by_the_stores_clock() {
    a_wrong_clock(-2, "behind").await;
}
