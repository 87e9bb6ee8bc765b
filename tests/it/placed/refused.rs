//! What cannot be is refused with a reason, and changes nothing.

use std::process::Command;

use super::{Cells, REST, STATES, json_of, others, pin, place, quarantine, served, shared, to};
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
        ("acme/pin", long, 400, "reason: it exceeds 200 bytes"),
        ("ACME/pin", to("cell-a cell-b", "1h"), 400, "tenant id has 'A' at 0"),
    ] {
        let answer = router.tell("PUT", &format!("/tenants/{path}"), &body).await;
        assert!(answer.status() == status && answer.text().contains(why), "{path} {body}: {answer:?}");
    }
    let refused = router.tell("DELETE", "/tenants/acme/quarantine", "{\"why\": 1}").await;
    assert_eq!(refused.status(), 400);
    assert_eq!(place(&router, "acme").await, before);
    assert!(router.admin("/placement").await["overrides"].as_array().unwrap().is_empty());
    let refusals = router.metrics().await.sum("cofferdam_placement_changes_total", &["refused"]);
    assert_eq!(refusals, 18.0);
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
            router.tell("DELETE", "/tenants/acme/pin", "").await,
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

/// A library that has a process's time of day be so many seconds later.
fn later_clock(folder: &std::path::Path) -> String {
    let source = folder.join("later.c");
    let text = "#define _GNU_SOURCE\n#include <time.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
                int clock_gettime(clockid_t clock, struct timespec *at) {\n\
                long done = syscall(SYS_clock_gettime, clock, at);\n\
                const char *by = getenv(\"LATER_S\");\n\
                if (done == 0 && clock == CLOCK_REALTIME && by) at->tv_sec += atol(by);\n\
                return done;\n}\n";
    std::fs::write(&source, text).unwrap();
    let library = folder.join("later.so");
    let done =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(done.success());
    library.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_router_whose_clock_is_wrong_makes_no_changes_and_judges_ends_by_the_stores_clock() {
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, cells.file(1, &STATES, REST)).unwrap();
    let library = later_clock(folder.path());
    let wrong = [("LD_PRELOAD", library.as_str()), ("LATER_S", "7200")];
    let router = RealRouter::start("wrong", &file, &["--store", &server.url()], &wrong).await;
    let admin = router.admin;
    let refused = eventually("a store", async || {
        let refused = tell(admin, "PUT", "/tenants/acme/pin", &to("cell-a cell-b", "1h")).await;
        (!refused.text().contains("no connection to the store")).then_some(refused)
    })
    .await;
    assert_eq!(refused.status(), 503, "{refused:?}");
    assert!(
        refused.text().contains("ahead of the store's, and may be 1s apart: nothing was changed"),
        "{refused:?}"
    );
    // An hour has not gone by, though it has on the wrong clock.
    let right = cells.router(shared(&server.url()));
    let pinned = eventually("a pin", async || {
        let answer = pin(&right, "acme", &to("cell-a cell-b", "1h")).await;
        (answer.status() == 200).then_some(())
    });
    pinned.await;
    eventually("the pin, where the clock is wrong", async || {
        let view = tell(admin, "GET", "/tenants/acme", "").await;
        (json_of(&view)["reason"] == "pin").then_some(())
    })
    .await;
}
