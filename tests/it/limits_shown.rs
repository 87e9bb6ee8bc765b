//! `cofferdam limits show`: every limit that binds a tenant, its share in a cell, and what is in force while the store is away.

use std::time::Duration;

use cofferdam_router::{Settings, SharedStore};

use crate::support::files::fleet;
use crate::support::processes::run_at;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;

const LIMITS: &str = "
plans: { p: { sustained: 100/s, burst: 101, max_in_flight: 21, quota: { 1d: 5000 } } }
tenant: { unknown: p }
ceiling: { sustained: 1k/s, burst: 2000, max_in_flight: 400 }
limits: { routers: 2 }
routes:
  - { match: { path: /search }, class: search, limit: { sustained: 4/s, burst: 8 }, on_store_failure: closed }
  - { match: { path: /import }, class: search, max_in_flight: 3, shape: { rate: 5/s, queue: 2, max_wait: 1s } }
  - { match: { path: /pay }, dependency: payments }
cell:
  max_in_flight: 80
  tenant_share: 0.25
  breaker: {}
  dependencies: { payments: { max_in_flight: 6, breaker: {} } }
  classes: { default: { ceiling: 60, floor: 10 }, search: { ceiling: 12, queue: 4, max_wait: 50ms } }
";

async fn shown(store: Option<SharedStore>) -> String {
    let cells = Scripted::cells(2).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let text = fleet(&addresses, &format!("placement: {{ pins: {{ acme: [cell-a, cell-b] }} }}{LIMITS}"));
    let router = TestRouter::with(&text, Settings { store, ..settings() }, 1);
    let output = run_at(router.admin, "limits show acme").await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether one line has all of these words, in this order.
fn has_line(text: &str, words: &[&str]) -> bool {
    let has = |line: &str| {
        let mut rest = line;
        words.iter().all(|word| match rest.split_once(word) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    };
    text.lines().any(has)
}

#[tokio::test]
async fn every_limit_that_binds_is_named_with_the_tenants_share_in_a_cell() {
    let said = shown(None).await;
    for words in [
        &["fleet", "1000/s", "2000", "400", "ceiling"][..],
        &["tenant", "100/s", "101", "21", "plan"],
        &["route * /search", "4/s", "8", "route"],
        &["quota: 0 used of 5000 in 86400 s"],
        &["in each of its cells (cell-a, cell-b): 80 places; one tenant may hold 0.25 of a class"],
        &["default", "15", "60", "10", "0"],
        &["search", "3", "12", "0", "4", "50 ms"],
        &["dependency payments: at most 6 in flight in a cell, behind a breaker"],
        &["backend: behind a breaker"],
        &[
            "route * /import: class search, at most 3 in flight in a cell, ",
            "evenly at 5/s, 2 in line for at most 1000 ms",
        ],
        &["route * /pay: class default, under the cap of dependency payments"],
        &["store: none"],
    ] {
        assert!(has_line(&said, words), "{words:?}:\n{said}");
    }
    assert!(!said.contains("while the store is away"), "{said}");
}

#[tokio::test]
async fn what_is_in_force_while_the_store_is_away_is_named_with_how_many_share() {
    let endpoint = "redis://127.0.0.1:1".parse().unwrap();
    let said = shown(Some(SharedStore { endpoint, budget: Duration::from_millis(5) })).await;
    for words in [
        &["while the store is away, which is now, at this router:"][..],
        &["level fleet: its share, one of 2 routers: 500/s, burst 1000, 200 in flight"],
        // The odd one is nobody's while the other router was never seen.
        &["level tenant: its share, one of 2 routers: 50/s, burst 50, 10 in flight; quotas are not counted"],
        &["level route * /search: everything is refused (closed)"],
    ] {
        assert!(has_line(&said, words), "{words:?}:\n{said}");
    }
}
