//! A router without a store that hands over to a successor in the middle of a move: what it has inside is not known to the other.

use serde_json::json;

use super::{Stage, hangs};
use crate::support::eventually;
use crate::support::processes::{Process, RealRouter};
use crate::support::raw::{Client, get};

#[tokio::test]
async fn a_move_in_the_middle_of_which_a_lone_router_is_followed_is_undone_and_what_waited_is_served_as_before()
 {
    let mut stage = Stage::with(0, "limits: { routers: 1 }\n").await;
    let [state, path] = ["state", "router.sock"].map(|name| stage.folder.path().join(name));
    let flags = ["--state", state.to_str().unwrap(), "--handover", path.to_str().unwrap()];
    let old = RealRouter::start("old", &stage.file(), &flags, &[]).await;
    let at = [old.data, old.admin, old.probes].map(|address| address.to_string());
    stage.routers.push(old);
    let hangs = hangs(&stage).await;
    stage.begin(0, "60s").await;
    stage.holds(0).await;
    let mut waits = Client::connect(stage.routers[0].data).await;
    waits.send(get("/", "acme")).await;
    stage.waiting(0, 1).await;
    let file = stage.file();
    let listen = ["--listen", &at[0], "--admin", &at[1], "--probe-listen", &at[2], "--workers", "2"];
    let arguments = [&["router", "--fleet", file.to_str().unwrap()][..], &listen, &flags].concat();
    let next = Process::start(stage.folder.path(), "next", &arguments);
    let answer = waits.answer().await;
    assert_eq!((answer.status(), answer.text()), (200, "cell-a".to_owned()), "{answer:?}");
    eventually("a successor", async || {
        next.log().contains("the process that ran before hands over").then_some(())
    })
    .await;
    let mut old = std::mem::replace(&mut stage.routers[0].process, next);
    // Its predecessor has a request inside, and is not asked.
    let status = stage.ended(0, "undone").await;
    assert_eq!(status["last_move"]["why"], json!("another process took the router's place"));
    assert_eq!(stage.served(0, "acme").await, "cell-a");
    assert!(old.ended().is_none(), "{}", old.log());
    drop(hangs);
    assert_eq!(old.end().await.code(), Some(0));
    assert!(stage.stays.lock().unwrap().iter().all(|stay| stay.cell < 2));
}
