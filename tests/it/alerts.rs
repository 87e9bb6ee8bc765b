//! The alert rules that come with the product name metrics that there are, and are raised where they should be.

mod expression;

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_router::{Settings, SharedStore};

use self::expression::fires;
use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::get;
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};

const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");

/// An alert, values of its metrics, and whether it is raised by them.
type Bound = (&'static str, &'static [(&'static str, f64)], bool);

/// For each alert, where it is raised, and where it is not.
const BOUNDS: [Bound; 42] = [
    ("ClassStaysFull", &[("agent_places_in_use", 46.0), ("agent_places_limit", 50.0)], true),
    ("ClassStaysFull", &[("agent_places_in_use", 45.0), ("agent_places_limit", 50.0)], false),
    ("CellStaysFull", &[("agent_cell_saturation", 0.91)], true),
    ("CellStaysFull", &[("agent_cell_saturation", 0.9)], false),
    ("CapStaysFull", &[("agent_cap_in_use", 19.0), (CAP_QUEUED, 0.0), ("agent_cap_limit", 20.0)], true),
    ("CapStaysFull", &[("agent_cap_in_use", 10.0), (CAP_QUEUED, 9.0), ("agent_cap_limit", 20.0)], true),
    ("CapStaysFull", &[("agent_cap_in_use", 18.0), (CAP_QUEUED, 0.0), ("agent_cap_limit", 20.0)], false),
    ("BreakerOpen", &[("agent_breaker_open", 1.0)], true),
    ("BreakerOpen", &[("agent_breaker_open", 0.5)], true),
    ("BreakerOpen", &[("agent_breaker_open", 0.0)], false),
    ("CriticalClassRefuses", &[("agent_refusals_total", 1.0), ("agent_class_priority", 0.0)], true),
    ("CriticalClassRefuses", &[("agent_refusals_total", 0.0), ("agent_class_priority", 0.0)], false),
    ("CriticalClassRefuses", &[("agent_refusals_total", 1.0), ("agent_class_priority", 1.0)], false),
    ("QueueTimeouts", &[("agent_queue_timeouts_total", 1.1)], true),
    ("QueueTimeouts", &[("agent_queue_timeouts_total", 1.0)], false),
    ("FloorLiesIdle", &[("agent_places_peak", 1.0), ("agent_places_floor", 8.0)], true),
    ("FloorLiesIdle", &[("agent_places_peak", 2.0), ("agent_places_floor", 8.0)], false),
    ("FloorLiesIdle", &[("agent_places_peak", 0.0), ("agent_places_floor", 7.0)], false),
    ("Drill", &[("agent_drills", 1.0)], true),
    ("Drill", &[("agent_drills", 0.0)], false),
    ("CellDown", &[("router_cell_up", 0.0)], true),
    ("CellDown", &[("router_cell_up", 1.0)], false),
    ("TenantConfined", &[("router_tenants_confined", 1.0)], true),
    ("TenantConfined", &[("router_tenants_confined", 0.0)], false),
    ("RetriesDenied", &[("router_retries_denied_total", 1.1)], true),
    ("RetriesDenied", &[("router_retries_denied_total", 1.0)], false),
    ("ReportsAreOld", &[("router_cell_report_age_seconds", 61.0)], true),
    ("ReportsAreOld", &[("router_cell_report_age_seconds", 60.0)], false),
    ("TwoTablesAtOneRevision", &[("router_table", 2.0)], true),
    ("TwoTablesAtOneRevision", &[("router_table", 1.0)], false),
    ("RevisionTakenTwice", &[("router_revision_disputed", 1.0), (OTHER_TABLE, 0.0)], true),
    ("RevisionTakenTwice", &[("router_revision_disputed", 0.0), (OTHER_TABLE, 1.0)], true),
    ("RevisionTakenTwice", &[("router_revision_disputed", 0.0), (OTHER_TABLE, 0.0)], false),
    ("ReloadRefused", &[(NOT_TAKEN, 1.0)], true),
    ("ReloadRefused", &[(NOT_TAKEN, 0.0)], false),
    ("OverridesLeftOut", &[(LEFT_OUT[0], 1.0), (LEFT_OUT[1], 0.0)], true),
    ("OverridesLeftOut", &[(LEFT_OUT[0], 0.0), (LEFT_OUT[1], 1.0)], true),
    ("OverridesLeftOut", &[(LEFT_OUT[0], 0.0), (LEFT_OUT[1], 0.0)], false),
    ("StoreAway", &[("store_away", 1.0)], true),
    ("StoreAway", &[("store_away", 0.0)], false),
    ("WaitsForStore", &[("limits_store_wait_seconds_bucket", 0.006)], true),
    ("WaitsForStore", &[("limits_store_wait_seconds_bucket", 0.005)], false),
];

const CAP_QUEUED: &str = "agent_cap_queued";
const OTHER_TABLE: &str = r#"router_reloads_total{outcome="other_table"}"#;
const NOT_TAKEN: &str = r#"router_reloads_total{outcome!~"taken|forced"}"#;
const LEFT_OUT: [&str; 2] = ["placement_overrides_left_out", "limits_overrides_left_out"];

/// Each alert's name and expression, without what all names begin with.
fn rules() -> BTreeMap<&'static str, String> {
    let lines = || RULES.lines().map(str::trim);
    let names = lines().filter_map(|line| line.strip_prefix("- alert: Cofferdam"));
    let expressions = lines().filter_map(|line| line.strip_prefix("expr: "));
    names.zip(expressions).map(|(name, expression)| (name, expression.replace("cofferdam_", ""))).collect()
}

#[test]
fn every_alert_is_raised_beyond_its_bound_and_not_before() {
    // P17
    let rules = rules();
    for (name, values, is_raised) in BOUNDS {
        assert_eq!(fires(&rules[name], values), is_raised, "{name} at {values:?}");
    }
    for name in rules.keys() {
        let tried: BTreeSet<_> = BOUNDS.iter().filter(|(of, ..)| of == name).map(|(.., is)| is).collect();
        assert_eq!(tried.len(), 2, "{name} is to be seen raised and not raised");
    }
}

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
    let guarded = "dependencies: { db: { max_in_flight: 5 } }, breaker: {}";
    let fleet = TestFleet::start(&format!("cell: {{ {guarded} }}")).await;
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
