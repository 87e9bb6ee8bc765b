//! When a cell is believed down and up again, and what a router says of it.

use std::fs;

use crate::support::eventually;
use crate::support::files::{PINS, fleet};
use crate::support::processes::RealRouter;
use crate::support::raw::{self, get};
use crate::support::scripted::{Refusing, Scripted};

#[tokio::test]
async fn a_refused_port_behind_a_well_probe_is_down_once_and_stays_down() {
    let (home, probe, second) =
        (Refusing::new(), Scripted::named("probe").await, Scripted::named("second").await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    let url = format!("url: \"http://{}\"", home.address);
    let text = fleet(&[home.address, second.address], PINS);
    assert!(text.contains(&url), "{text}");
    fs::write(&file, text.replace(&url, &format!("{url}, probe: \"http://{}\"", probe.address))).unwrap();
    let router = RealRouter::start("router", &file, &["--log-format", "json"], &[]).await;
    // Two questions a round: some ten rounds of the prober, with requests all the while.
    let mut n_asked = 0;
    while probe.seen().len() < 20 {
        assert_eq!(raw::ask(router.data, get("/", "acme")).await.text(), "second");
        n_asked += 1;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let log = router.process.log();
    let of_cell: Vec<_> = log.lines().filter(|line| line.contains("cell-a")).collect();
    assert_eq!(of_cell.len(), 1, "{of_cell:#?}");
    assert!(of_cell[0].contains("cell is believed down"), "{of_cell:?}");
    // Once it listens, it is taken again, which is said once as well.
    let address = home.address;
    drop(home);
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    eventually("the cell to be up", async || {
        let up = crate::support::metrics::scrape(router.probes).await;
        (up.sum("cofferdam_router_cell_up", &["cell=\"cell-a\""]) == 1.0).then_some(())
    })
    .await;
    drop(listener);
    let log = router.process.log();
    let n_lines = log.lines().filter(|line| line.contains("cell-a")).count();
    assert_eq!(n_lines, 2, "after {n_asked} requests: {log}");
}
