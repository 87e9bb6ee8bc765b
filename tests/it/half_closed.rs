//! Tunnels of which one side has ended: the other one holds what the request holds for a few seconds, and no longer.

use crate::support::eventually;
use crate::tunnels::{fleet, open};

#[tokio::test]
async fn a_tunnel_that_its_backend_has_closed_gives_its_permit_back_though_the_client_stays() {
    let (fleet, noted) = fleet("").await;
    let mut client = open(&fleet.router, "/gone").await;
    noted.closed().await;
    assert_eq!(client.rest().await, b"");
    // Silence between two living sides would last for 300 s.
    fleet.idle().await;
    for (metrics, who) in
        [(fleet.router.metrics().await, "router"), (fleet.cells[0].metrics().await, "agent")]
    {
        let name = format!("cofferdam_{who}_tunnels_total");
        let ends = ["closed", "half_closed", "upstream_lost", "client_lost", "idle"];
        let ends = ends.map(|end| metrics.sum(&name, &[&format!("end=\"{end}\"")]));
        assert_eq!((ends.iter().sum::<f64>(), ends[3], ends[4]), (1.0, 0.0, 0.0), "{who}: {ends:?}");
    }
    drop(client);
}

#[tokio::test]
async fn a_tunnel_whose_backend_has_ended_its_side_alone_is_not_held_by_a_client_that_says_nothing() {
    let (fleet, noted) = fleet("").await;
    let mut client = open(&fleet.router, "/first").await;
    assert_eq!(client.rest().await, b"");
    eventually("the end of a tunnel that one side has left", async || {
        let open = fleet.router.metrics().await.sum("cofferdam_router_tunnels_open", &[]);
        (open == 0.0).then_some(())
    })
    .await;
    noted.closed().await;
    fleet.idle().await;
    drop(client);
}
