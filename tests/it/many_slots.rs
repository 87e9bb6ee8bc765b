//! A reload to a table of 2^20 slots, which takes a while to build: nobody else waits for it.

use std::cell::Cell;
use std::net::SocketAddr;

use crate::support::files::revision;
use crate::support::load::Load;
use crate::support::processes::probe;
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

#[tokio::test]
async fn requests_and_probes_are_answered_while_a_table_of_a_million_slots_is_built() {
    let cells = Scripted::cells(3).await;
    let addresses: Vec<SocketAddr> = cells.iter().map(|cell| cell.address).collect();
    let router = TestRouter::start(&revision(1, &addresses, ""));
    let load = Load::start(router.data);
    load.goes_on().await;
    let (n_probes, n_rounds) = (Cell::new(0), Cell::new(0));
    let probes = async {
        loop {
            assert_eq!(probe(router.probes, "/readyz").await, 200);
            n_probes.set(n_probes.get() + 1);
        }
    };
    let requests = async {
        loop {
            load.goes_on().await;
            n_rounds.set(n_rounds.get() + 1);
        }
    };
    let larger = revision(2, &addresses, "placement: { slots: 1048576, force: everybody was told }\n");
    // What is counted was asked after the reload had begun, and answered before it was over.
    tokio::select! {
        biased;
        taken = router.reload(&larger) => taken.unwrap(),
        () = async { tokio::join!(probes, requests); } => {}
    }
    assert!(n_probes.get() >= 10 && n_rounds.get() >= 1, "{} and {}", n_probes.get(), n_rounds.get());
    assert_eq!(router.admin("/fleet").await["revision"], 2);
    load.goes_on().await;
    load.end().await;
    router.idle().await;
}
