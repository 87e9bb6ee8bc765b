//! Several routers: each knows its own requests alone, and nothing is said of those that were not asked.

use std::time::Duration;

use cofferdam_router::{Settings, SharedStore};

use super::told::{ACME, explain};
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::get;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, answer};

#[tokio::test]
async fn what_another_router_saw_is_told_where_that_is_named_and_else_that_it_was_not_asked() {
    let server = RedisServer::start();
    let cell = Scripted::start(|seen| match seen.head.second_word() {
        "/fail" => Play::Answer(answer("500 Internal Server Error", "", "failed")),
        _ => Play::Answer(crate::support::scripted::ok("well")),
    })
    .await;
    let start = || {
        let endpoint = server.url().parse().unwrap();
        let store = Some(SharedStore { endpoint, budget: Duration::from_millis(100) });
        TestRouter::with(&alone(cell.address, ""), Settings { store, ..settings() }, 1)
    };
    let [one, other] = [start(), start()];
    for _ in 0..5 {
        assert_eq!(one.ask(get("/", ACME)).await.status(), 200);
        assert_eq!(other.ask(get("/fail", ACME)).await.status(), 500);
    }
    // The store begins to remember, and then each router hears of the other.
    let (said, code) = eventually("a store that remembers both routers", async || {
        let (said, code) = explain(&[one.admin], ACME).await;
        said.contains("1 of 2 live routers were asked: what the other 1 saw is not known")
            .then_some((said, code))
    })
    .await;
    assert!(!said.contains("  Nothing is wrong"), "{said}");
    let settled = async || {
        let (said, code) = explain(&[one.admin], ACME).await;
        said.contains("At the routers that were asked nothing is wrong").then_some(code)
    };
    assert_eq!(eventually("the store to lend again", settled).await, Some(0), "{said} {code:?}");
    let (said, code) = explain(&[one.admin, other.admin], ACME).await;
    let first = said.lines().next().unwrap();
    assert!(first.contains("5 of 10 requests") && first.contains("answered 500"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("not known"), "{said}");

    let nobody = crate::support::processes::free_port();
    let (said, code) = explain(&[one.admin, nobody], ACME).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("! the router at http://{nobody} did not answer")), "{said}");
}
