//! How many connections clients may have of a process.

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::metrics::scrape;
use crate::support::processes::RealFleet;
use crate::support::raw::{self, Client, with_fields};
use crate::support::scripted::Scripted;

const FLAGS: [&str; 4] = ["--workers", "2", "--max-connections-per-address", "2"];

/// A request whose tenant is the host's label, which anybody may say.
fn ask(fields: &str) -> String {
    with_fields("GET", "/", "acme", fields).replace("test.example", "acme.example")
}

#[tokio::test]
async fn a_stranger_has_its_share_of_connections_whatever_worker_they_come_to_and_a_trusted_peer_has_no_bound()
 {
    let cell = Scripted::named("cell").await;
    for (sources, is_bound) in
        [("", false), ("tenant: { from: [ host: { pattern: \"{tenant}.example\" } ] }\n", true)]
    {
        let fleet = RealFleet::start(0, &FLAGS, |_| alone(cell.address, sources)).await;
        let mut held = [Client::connect(fleet.data).await, Client::connect(fleet.data).await];
        for client in &mut held {
            assert_eq!(client.ask(ask("")).await.status(), 200);
        }
        let mut third = Client::connect(fleet.data).await;
        let _ = third.try_send(ask("connection: close\r\n")).await;
        assert_eq!(third.rest().await.is_empty(), is_bound, "{sources}");
        let refused = scrape(fleet.probes).await;
        let refused = refused.sum("cofferdam_router_connections_refused_total", &["reason=\"address\""]);
        assert_eq!(refused, f64::from(u8::from(is_bound)));
        drop(held);
        eventually("no connection", async || {
            (scrape(fleet.probes).await.sum("cofferdam_router_connections_open", &[]) == 0.0).then_some(())
        })
        .await;
        assert_eq!(raw::ask(fleet.data, ask("connection: close\r\n")).await.status(), 200);
    }
}
