//! `cofferdam move` waits for its own move, whatever the router that it asks has heard of it so far.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::processes::run_at;
use crate::support::scripted::{Play, Scripted, answer};

/// An admin listener that has begun the move `new`, shows these one after the other when it is asked, and then the last for ever.
async fn admin(shown: Vec<Value>) -> Scripted {
    let n_asked = AtomicUsize::new(0);
    Scripted::start(move |seen| {
        let mut view = json!({ "tenant": "acme", "shard": ["cell-a", "cell-b"], "move": null });
        // The store was away when it looked behind the change: it knows the move before alone.
        view["last_move"] = ended("old", "undone");
        if seen.head.line.starts_with("PUT ") {
            view["id"] = "new".into();
        } else {
            let at = n_asked.fetch_add(1, Ordering::SeqCst).min(shown.len() - 1);
            for (name, value) in shown[at].as_object().unwrap() {
                view[name] = value.clone();
            }
        }
        Play::Answer(answer("200 OK", "content-type: application/json\r\n", &view.to_string()))
    })
    .await
}

fn ended(id: &str, outcome: &str) -> Value {
    let why = (outcome == "undone").then_some("a test");
    json!({ "id": id, "to": ["cell-c", "cell-d"], "outcome": outcome, "ended": "then", "took_ms": 5, "why": why })
}

#[tokio::test]
async fn it_ends_as_its_own_move_ended_though_the_router_had_not_heard_of_it_at_first() {
    let nothing = json!({});
    let holding = json!({ "move": { "id": "new", "phase": "holding", "to": ["cell-c"], "routers": {} } });
    let over = |id, outcome| json!({ "last_move": ended(id, outcome) });
    let next = json!({ "move": { "id": "next", "phase": "holding", "to": ["cell-a"], "routers": {} } });
    for (shown, code, said) in [
        (
            vec![nothing.clone(), holding.clone(), over("new", "done")],
            0,
            "where it was moved at then in 5 ms",
        ),
        (vec![nothing.clone(), over("new", "done")], 0, "where it was moved at then in 5 ms"),
        (vec![nothing.clone(), holding.clone(), over("new", "undone")], 1, "was undone at then: a test"),
        (vec![holding.clone(), over("another", "done")], 1, "does not know any more how the move ended"),
        (vec![holding, next], 1, "does not know any more how the move ended"),
    ] {
        let admin = admin(shown.clone()).await;
        let done = run_at(admin.address, "move acme --to cell-c,cell-d --timeout 5s --reason r").await;
        let words = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(done.status.code() == Some(code) && words.contains(said), "{shown:?}: {words}");
    }
}
