//! Cells of one tenant that an operator changes for a while: on the admin listener and by the command, for one router and for all
//! that share a store.

mod alone;
mod refused;
mod shared;

use std::time::Duration;

use cofferdam_router::{Settings, SharedStore};
use serde_json::Value;

use crate::support::files::{cell_id, in_states};
use crate::support::raw::{Answer, get};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;

/// What the cells from `cell-a` on are there for.
const STATES: [&str; 9] =
    ["active", "active", "active", "active", "active", "active", "dedicated", "quarantine", "quarantine"];
/// Cells by what they are there for, besides those of the table.
const DEDICATED: &str = "cell-g";
const WARDS: [&str; 2] = ["cell-h", "cell-i"];

/// `acme` is at home in the file's own way, and is the only one that the file says nothing of.
const REST: &str = "
tenant: { unknown: free }
plans: { free: { sustained: 1M/s, burst: 1M, max_in_flight: 1000 } }
limits: { routers: 1 }
placement: { pins: { pinned: [cell-a, cell-b] }, quarantine: { mallory: [cell-i] } }
";

/// Cells that answer with their names.
struct Cells(Vec<Scripted>);

impl Cells {
    async fn start() -> Self {
        Self(Scripted::cells(STATES.len()).await)
    }

    fn file(&self, revision: u64, states: &[&str], rest: &str) -> String {
        let addresses: Vec<_> = self.0.iter().map(|cell| cell.address).collect();
        in_states(revision, &addresses, states, rest)
    }

    fn router(&self, settings: Settings) -> TestRouter {
        TestRouter::with(&self.file(1, &STATES, REST), settings, 1)
    }
}

/// With the store at `url`, which is given up on soon.
fn shared(url: &str) -> Settings {
    shared_within(url, Duration::from_millis(100))
}

/// The same where the store is known to be well, and a machine that is busy may hold it up.
fn patient(url: &str) -> Settings {
    shared_within(url, Duration::from_secs(5))
}

fn shared_within(url: &str, budget: Duration) -> Settings {
    Settings { store: Some(SharedStore { endpoint: url.parse().unwrap(), budget }), ..settings() }
}

/// The words of who ends something.
const ENDED: &str = r#"{"author": "ops", "reason": "a test"}"#;

/// A change that lasts for so long.
fn to(cells: &str, lasting: &str) -> String {
    let cells: Vec<_> =
        cells.split(' ').filter(|cell| !cell.is_empty()).map(|cell| format!("\"{cell}\"")).collect();
    format!(r#"{{"to": [{}], "for": "{lasting}", "reason": "a test", "author": "ops"}}"#, cells.join(","))
}

async fn pin(router: &TestRouter, tenant: &str, body: &str) -> Answer {
    router.tell("PUT", &format!("/tenants/{tenant}/pin"), body).await
}

async fn quarantine(router: &TestRouter, tenant: &str, body: &str) -> Answer {
    router.tell("PUT", &format!("/tenants/{tenant}/quarantine"), body).await
}

fn json_of(answer: &Answer) -> Value {
    assert_eq!(answer.status(), 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The cell that serves a tenant.
async fn served(router: &TestRouter, tenant: &str) -> String {
    let answer = router.ask(get("/", tenant)).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.text()
}

/// Where the router says that a tenant is, and why.
async fn place(router: &TestRouter, tenant: &str) -> (Vec<String>, String) {
    let view = router.admin(&format!("/tenants/{tenant}")).await;
    let shard = view["shard"].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned());
    (shard.collect(), view["reason"].as_str().unwrap().to_owned())
}

/// The cells of the table that a tenant has not.
async fn others(router: &TestRouter, tenant: &str) -> Vec<String> {
    let (shard, _) = place(router, tenant).await;
    (0..6).map(cell_id).filter(|cell| !shard.contains(cell)).collect()
}
