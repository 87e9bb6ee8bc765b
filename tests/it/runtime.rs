//! Routers and agents whose threads are shared by all workers: they serve and leave as the others do.

use rustix::process::Signal;

use crate::support::eventually;
use crate::support::files::{PINS, fleet};
use crate::support::load::Load;
use crate::support::processes::{Process, RealFleet};

const SHARED: [&str; 6] = ["--runtime", "shared", "--workers", "2", "--handover", "FOLDER/router.sock"];

/// How many threads of a process have this name.
fn n_threads(process: &Process, name: &str) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.child.id())).unwrap();
    let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap());
    names.filter(|known| known.trim_end() == name).count()
}

#[tokio::test]
async fn processes_on_a_shared_runtime_serve_hand_over_and_drain_without_a_lost_request() {
    let cell = ["cell", "--runtime", "shared"].to_vec();
    let mut fleet = RealFleet::of(&[cell.clone(), cell], &SHARED, |cells| fleet(cells, PINS)).await;
    // A thread has its name once it runs.
    eventually("two threads for all workers of the router, and one for the agent's", async || {
        let named = (n_threads(&fleet.router, "data"), n_threads(&fleet.cells[0], "agent"));
        (named == (2, 1)).then_some(())
    })
    .await;
    let load = Load::start(fleet.data);
    load.goes_on().await;
    for name in ["second", "third"] {
        let next = fleet.start_successor(name, &SHARED);
        let mut old = std::mem::replace(&mut fleet.router, next);
        assert_eq!(old.end().await.code(), Some(0));
        load.goes_on().await;
    }
    load.end().await;
    fleet.router.signal(Signal::TERM);
    assert_eq!(fleet.router.end().await.code(), Some(0));
    fleet.cells[0].signal(Signal::TERM);
    assert_eq!(fleet.cells[0].end().await.code(), Some(0));
}

#[tokio::test]
async fn a_worker_has_a_thread_of_its_own_by_default() {
    let fleet =
        RealFleet::start(1, &["--workers", "2"], |cells| fleet(cells, "placement: { shard_size: 1 }")).await;
    eventually("a thread for each worker", async || {
        let named = ["data-0", "data-1"].map(|name| n_threads(&fleet.router, name));
        (named == [1, 1]).then_some(())
    })
    .await;
    assert_eq!(["data", "data-all"].map(|name| n_threads(&fleet.router, name)), [0, 0]);
}
