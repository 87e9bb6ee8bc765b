//! What a cell is there for, at the wire: who is served by cells that drain, or stand outside the table.

use serde_json::{Value, json};

use crate::support::files::{cell_id, in_states};
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

/// Five cells that answer with their names; the states are by their order, `rest` has further sections.
fn fleet(revision: u64, cells: &[Scripted], states: &[&str], rest: &str) -> String {
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    in_states(revision, &addresses, states, rest)
}

async fn cells() -> Vec<Scripted> {
    Scripted::cells(5).await
}

const COOKIE: &str = "placement: { affinity: { cookie: cell } }\n";
const DRAINS: &str = "draining, until: 9999-01-01T00:00:00Z";

/// A tenant whose home is the first cell while that is active, and its shard then and without it.
async fn at_home_on_first(router: &TestRouter) -> String {
    for n in 0..200 {
        let tenant = format!("tenant-{n}");
        if router.admin(&format!("/tenants/{tenant}")).await["shard"][0] == "cell-a" {
            return tenant;
        }
    }
    panic!("no tenant is at home on the first of five cells");
}

#[tokio::test]
async fn a_draining_cell_keeps_what_is_marked_with_it_and_gets_nothing_else() {
    let cells = cells().await;
    let router = TestRouter::start(&fleet(1, &cells, &[], COOKIE));
    let tenant = at_home_on_first(&router).await;
    let marked = |mark: &str| with_fields("GET", "/", &tenant, &format!("cookie: x=1; cell={mark}\r\n"));
    let served = async |request: String| router.ask(request).await.text();
    assert_eq!(served(get("/", &tenant)).await, "cell-a");

    router.reload(&fleet(2, &cells, &[DRAINS], COOKIE)).await.unwrap();
    let view = router.admin(&format!("/tenants/{tenant}")).await;
    let home = view["shard"][0].as_str().unwrap().to_owned();
    assert!(!view["shard"].as_array().unwrap().contains(&json!("cell-a")), "{view}");
    assert_eq!(served(get("/", &tenant)).await, home);
    assert_eq!(served(marked("cell-a")).await, "cell-a");
    // A mark of a cell that does not drain leads nowhere.
    for other in ["cell-b", "cell-c", "cell-d", "cell-e", "cell-z"] {
        assert_eq!(served(marked(other)).await, home, "{other}");
    }
    let first = &router.admin("/cells").await[0];
    assert_eq!((&first["state"], &first["until"]), (&json!("draining"), &json!("9999-01-01T00:00:00Z")));

    // Its time is no part of the table: it changes at the same revision.
    let over = "draining, until: 2020-01-01T00:00:00Z";
    router.reload(&fleet(2, &cells, &[over], COOKIE)).await.unwrap();
    assert_eq!(served(marked("cell-a")).await, home);
}

#[tokio::test]
async fn a_mark_leads_to_no_cell_that_the_tenant_did_not_have() {
    let cells = cells().await;
    let router = TestRouter::start(&fleet(1, &cells, &[], COOKIE));
    let mut without = Vec::new();
    for n in 0..100 {
        let tenant = format!("tenant-{n}");
        let shard = router.admin(&format!("/tenants/{tenant}")).await["shard"].clone();
        if !shard.as_array().unwrap().contains(&json!("cell-a")) {
            without.push((tenant, shard[0].as_str().unwrap().to_owned()));
        }
    }
    router.reload(&fleet(2, &cells, &[DRAINS], COOKIE)).await.unwrap();
    let mut client = raw::Client::connect(router.data).await;
    assert!(!without.is_empty());
    for (tenant, home) in without {
        let marked = with_fields("GET", "/", &tenant, "cookie: cell=cell-a\r\n");
        assert_eq!(client.ask(marked).await.text(), home, "{tenant}");
    }
    assert!(cells[0].seen().is_empty());
}

#[tokio::test]
async fn what_is_marked_goes_to_the_rest_of_the_old_shard_once_the_draining_cell_is_down() {
    let mut cells = cells().await;
    let router = TestRouter::start(&fleet(1, &cells, &[], COOKIE));
    let tenant = at_home_on_first(&router).await;
    let second = router.admin(&format!("/tenants/{tenant}")).await["shard"][1].clone();
    router.reload(&fleet(2, &cells, &[DRAINS], COOKIE)).await.unwrap();
    cells.remove(0).stop().await;
    let marked = with_fields("GET", "/", &tenant, "cookie: cell=cell-a\r\n");
    for _ in 0..3 {
        assert_eq!(router.ask(&marked).await.text(), second.as_str().unwrap());
    }
}

#[tokio::test]
async fn a_tenant_in_quarantine_is_served_by_its_ward_alone_whatever_it_is_marked_with() {
    let cells = cells().await;
    let states = [DRAINS, "active", "active", "dedicated", "quarantine"];
    let rest = "placement: { shard_size: 1, affinity: { header: x-cell }, pins: { acme: [cell-d], globex: [cell-d] }, \
                quarantine: { acme: [cell-e] } }\n";
    let router = TestRouter::start(&fleet(1, &cells, &states, rest));
    let ask =
        async |tenant: &str| router.ask(with_fields("GET", "/", tenant, "x-cell: cell-a\r\n")).await.text();
    assert_eq!((ask("acme").await.as_str(), ask("globex").await.as_str()), ("cell-e", "cell-d"));
    let view = router.admin("/tenants/acme").await;
    assert_eq!((&view["reason"], &view["shard"]), (&json!("quarantine"), &json!(["cell-e"])));
    assert_eq!(view["cells"][0]["state"], "quarantine");
    for n in 0..50 {
        let served = ask(&format!("tenant-{n}")).await;
        assert!(["cell-a", "cell-b", "cell-c"].contains(&served.as_str()), "{served}");
    }
    assert_eq!(router.admin("/tenants/globex").await["reason"], Value::from("pin"));
}

#[tokio::test]
async fn a_plans_tenants_have_as_many_cells_as_it_says() {
    let cells = cells().await;
    let limits = "sustained: 1k/s, burst: 1000, max_in_flight: 9";
    let rest = format!(
        "plans: {{ small: {{ {limits} }}, large: {{ {limits}, shard_size: 4 }} }}\n\
         tenant: {{ unknown: small, plan_of: {{ acme: large }} }}\n"
    );
    let router = TestRouter::start(&fleet(1, &cells, &[], &rest));
    let shard = async |tenant: &str| router.admin(&format!("/tenants/{tenant}")).await["shard"].clone();
    let large = shard("acme").await;
    assert_eq!((large.as_array().unwrap().len(), shard("globex").await.as_array().unwrap().len()), (4, 2));
    // With three of its cells gone it is still served.
    let mut kept = Vec::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if large.as_array().unwrap()[..3].contains(&json!(cell_id(index))) {
            cell.stop().await;
        } else {
            kept.push(cell);
        }
    }
    assert_eq!(router.ask(get("/", "acme")).await.text(), large[3].as_str().unwrap());
    assert_eq!(kept.len(), 2);
}
