//! The alert rules that come with the product name metrics that there are.

use std::collections::BTreeSet;

use cofferdam_router::{Settings, SharedStore};

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::get;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};

const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");

/// What the expressions name.
fn named() -> BTreeSet<&'static str> {
    let expressions = RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let is_part = |character: char| !character.is_ascii_alphanumeric() && character != '_';
    let words = expressions.flat_map(move |expression| expression.split(is_part));
    words.filter(|word| word.starts_with("cofferdam_")).collect()
}

#[tokio::test]
async fn every_metric_that_an_alert_names_is_shown_by_a_router_or_an_agent() {
    // P17
    let fleet = TestFleet::start("").await;
    let store = RedisServer::start();
    let shared = Some(SharedStore {
        endpoint: store.url().parse().unwrap(),
        budget: std::time::Duration::from_secs(5),
    });
    let sharing = TestRouter::with(
        &alone(fleet.cells[0].backend.address, ""),
        Settings { store: shared, ..settings() },
        1,
    );
    assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
    assert_eq!(sharing.ask(get("/", "acme")).await.status(), 200);
    let scrapes = async || {
        let mut scrapes = vec![fleet.router.metrics().await, sharing.metrics().await];
        for cell in &fleet.cells {
            scrapes.push(cell.metrics().await);
        }
        scrapes
    };
    let mut names = named();
    // These agents allow no drills; `drills` shows its metric.
    assert!(names.remove("cofferdam_agent_drills") && names.len() > 10, "{names:?}");
    for name in names {
        let shown = async || scrapes().await.iter().any(|scrape| scrape.has(name)).then_some(());
        eventually(name, shown).await;
    }
}
