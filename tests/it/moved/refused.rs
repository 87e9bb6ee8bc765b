//! Moves that cannot be are refused with a reason, and change nothing; one that goes on keeps everything else from changing.

use std::time::Duration;

use serde_json::Value;

use super::Stage;
use crate::support::processes::run_at;
use crate::support::raw::Answer;
use crate::support::routers::tell;

async fn ask(stage: &Stage, router: usize, tenant: &str, to: &str) -> Answer {
    let cells: Vec<_> = to.split(' ').map(|cell| format!("\"{cell}\"")).collect();
    let body =
        format!(r#"{{"to": [{}], "timeout": "20s", "reason": "r", "author": "ops"}}"#, cells.join(","));
    tell(stage.routers[router].admin, "PUT", &format!("/tenants/{tenant}/move"), &body).await
}

#[tokio::test]
async fn a_move_to_a_dead_cell_to_where_the_tenant_is_or_to_what_no_pin_may_name_is_refused() {
    let mut stage = Stage::start(1).await;
    // Once a first move has gone through, all have signed in.
    stage.begin(0, "20s").await;
    stage.ended(0, "done").await;
    let dead = stage.cells.remove(1);
    dead.stop().await;
    for (tenant, to, status, why) in [
        ("acme", "cell-a cell-b", 409, "cell cell-b cannot be reached: nobody is moved there"),
        ("acme", "cell-c cell-d", 409, "tenant acme has these cells already"),
        ("acme", "cell-c", 400, "pin of acme has 1 cells, and a shard 2"),
        ("acme", "cell-c cell-z", 400, "pin of acme names the unknown cell cell-z"),
        ("acme", "cell-c cell-c", 400, "names the cell cell-c twice"),
    ] {
        let answer = ask(&stage, 0, tenant, to).await;
        assert!(answer.status() == status && answer.text().contains(why), "{to}: {answer:?}");
    }
    for (body, why) in [
        (r#"{"to": ["cell-c", "cell-a"]}"#, "reason is missing"),
        (r#"{"to": ["cell-c", "cell-a"], "reason": "r"}"#, "author is missing"),
        (
            r#"{"to": ["cell-c", "cell-a"], "reason": "r", "timeout": "6m"}"#,
            "timeout: \"6m\" is not a time from 1s to 5min",
        ),
        (r#"{"to": ["cell-c", "cell-a"], "reason": "r", "timeout": "0s"}"#, "timeout: \"0s\" is not a time"),
        (r#"{"to": ["cell-c", "cell-a"], "reason": "r", "for": "0s"}"#, "for: \"0s\" is outside"),
    ] {
        let answer = tell(stage.routers[0].admin, "PUT", "/tenants/acme/move", body).await;
        assert!(answer.status() == 400 && answer.text().contains(why), "{body}: {answer:?}");
    }
    assert_eq!(stage.served(0, "acme").await, "cell-c");
    assert_eq!(stage.status(0).await["move"], Value::Null);
}

#[tokio::test]
async fn a_second_move_of_a_tenant_and_every_other_change_is_refused_while_one_goes_on() {
    let stage = Stage::start(2).await;
    let mut long = stage.long(0, Duration::from_secs(4)).await;
    stage.begin(0, "20s").await;
    let second = ask(&stage, 1, "acme", "cell-d cell-c").await;
    let why = "tenant acme is being moved: wait for its end, or stop the move\n";
    assert_eq!((second.status(), second.text()), (409, why.to_owned()));
    let change = r#"{"to": ["cell-d", "cell-c"], "for": "1h", "reason": "r", "author": "ops"}"#;
    let end = r#"{"reason": "r", "author": "ops"}"#;
    for (method, path, body) in [
        ("PUT", "pin", change),
        ("DELETE", "pin", end),
        ("PUT", "quarantine", change),
        ("DELETE", "quarantine", end),
    ] {
        let answer = tell(stage.routers[1].admin, method, &format!("/tenants/acme/{path}"), body).await;
        assert_eq!((answer.status(), answer.text()), (409, why.to_owned()), "{method} {path}");
    }
    // Of another tenant it is nobody's affair.
    let other = ask(&stage, 1, "globex", "cell-d cell-c").await;
    assert_eq!(other.status(), 200, "{other:?}");
    long.answer().await;
    stage.ended(0, "done").await;
    stage.ended(1, "done").await;
}

#[tokio::test]
async fn where_fewer_routers_are_heard_of_than_there_are_nothing_begins() {
    let stage = Stage::with(1, "limits: { routers: 2 }\n").await;
    let answer = crate::support::eventually("a store", async || {
        let answer = ask(&stage, 0, "acme", "cell-c cell-d").await;
        (answer.status() != 503).then_some(answer)
    })
    .await;
    assert_eq!(answer.status(), 409);
    assert!(answer.text().starts_with("1 of 2 routers (limits.routers) are heard of"), "{answer:?}");
    assert_eq!(stage.served(0, "acme").await, "cell-a");
}

#[tokio::test]
async fn the_command_shows_the_phases_and_how_it_ended() {
    let stage = Stage::start(1).await;
    stage.begin(0, "20s").await;
    stage.ended(0, "done").await;
    let mut long = stage.long(0, Duration::from_millis(1500)).await;
    let command = async |words: &str| run_at(stage.routers[0].admin, words).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let done = command("move acme --to cell-a,cell-b --timeout 20s --reason back").await;
    let (printed, phases) = (text(done.stdout), text(done.stderr));
    assert!(done.status.success(), "{phases}");
    assert!(printed.starts_with("tenant acme is on cell-a, cell-b, where it was moved at "), "{printed}");
    assert!(phases.contains("holding (router ") && phases.contains("1 in flight"), "{phases}");
    long.answer().await;
    let status = text(command("move acme --status").await.stdout);
    assert_eq!(status, printed);
    let mut endless = crate::support::raw::Client::connect(stage.routers[0].data).await;
    endless.send(crate::support::raw::get("/endless", "acme")).await;
    stage.until(0, "in flight", |status| status["in_flight"] == 1).await;
    let undone = command("move acme --to cell-c,cell-d --timeout 1s --reason there").await;
    assert_eq!(undone.status.code(), Some(1));
    let printed = text(undone.stdout);
    assert!(printed.contains("the move to cell-c, cell-d was undone at "), "{printed}");
    assert!(printed.contains("the time was over: 1 requests were in flight at router"), "{printed}");
    for (words, code, why) in [
        ("move acme --to cell-c,cell-z --reason r", 2, "unknown cell cell-z"),
        ("move acme --to cell-a,cell-b --reason r", 1, "has these cells already"),
        ("move acme --stop", 1, "tenant acme is not being moved"),
        ("move acme --to cell-c,cell-d", 2, "--reason"),
        ("move acme", 2, "--to"),
    ] {
        let done = command(words).await;
        let said = text(done.stderr);
        assert!(done.status.code() == Some(code) && said.contains(why), "{words}: {said}");
    }
}
