//! What a file means that says nothing but its name and its cells.

use std::time::Duration;

use cofferdam_fleet::{
    Bucket, Ceiling, Choose, Fleet, Inclusion, LimitMode, PlacementRules, PlanIndex, SourceKind, Trusted,
};
use cofferdam_model::{Alphabet, CellState, OnStoreFailure, Rate, Revision, TenantId, Weight};

use crate::{refused, with};

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
}

#[test]
fn name_and_cells_are_enough() {
    let Fleet { name, revision, cells, placement, ceiling, limits, .. } = with("");
    assert_eq!((name.as_str(), revision), ("f", Revision(1)));
    assert_eq!(cells[0].zone.as_str(), "zone-1");
    assert_eq!((cells[0].weight, &cells[0].probe), (Weight::default(), &None));
    assert_eq!((cells[0].state, cells[0].until), (CellState::Active, None));
    let (pins, quarantine, choose) = (Vec::new(), Vec::new(), Choose::Primary);
    let (affinity, max_inclusion, max_new_cells) = (None, None, 4);
    let (movement_budget, force) = (None, None);
    let rules = PlacementRules {
        slots: 65_536,
        seed: 0,
        shard_size: 2,
        pins,
        quarantine,
        affinity,
        choose,
        inclusion: Inclusion::Weight,
        max_inclusion,
        max_new_cells,
        movement_budget,
        tell: false,
        force,
    };
    assert_eq!(placement, rules);
    assert_eq!(ceiling, Ceiling { bucket: None, max_in_flight: None, shadow: false });
    assert_eq!((limits.jitter.as_f64(), limits.max_tenants), (0.1, 100_000));
    assert_eq!((limits.mode, limits.routers), (LimitMode::Auto, None));
    assert_eq!(
        (limits.on_store_failure, limits.shadow, limits.older_fields),
        (OnStoreFailure::Local, false, true)
    );
}

#[test]
fn health_has_thresholds_and_a_slow_start() {
    let health = |text: &str| {
        let health = with(text).health;
        (health.fall, health.rise, health.slow_start)
    };
    assert_eq!(health(""), (2, 2, Duration::from_secs(10)));
    assert_eq!(health("health: { rise: 5 }"), (2, 5, Duration::from_secs(10)));
    assert_eq!(health("health: { fall: 1, slow_start: 0s }"), (1, 2, Duration::ZERO));
    refused(&[
        ("health: { fall: 0 }", "5:17: health.fall: 0 is outside 1 to 100"),
        ("health: { slow_start: 11m }", "5:23: health.slow_start: 11m is outside 0ns to 600s"),
    ]);
}

#[test]
fn a_fifth_of_requests_may_be_tried_again_and_poison_is_guarded_against() {
    let fleet = with("");
    let (all, tenant) = (fleet.retry_budget.all, fleet.retry_budget.tenant);
    assert_eq!((all.ratio.as_f64(), all.floor), (0.2, Rate::per_second(10).unwrap()));
    assert_eq!((tenant.ratio.as_f64(), tenant.floor), (0.2, Rate::per_second(2).unwrap()));
    assert!(fleet.poison_guard);
    let said =
        "retry_budget: { ratio: 0.1, floor: 5/s, tenant_ratio: 1, tenant_floor: 1/s }\npoison_guard: false";
    let fleet = with(said);
    let (all, tenant) = (fleet.retry_budget.all, fleet.retry_budget.tenant);
    assert_eq!((all.ratio.as_f64(), all.floor), (0.1, Rate::per_second(5).unwrap()));
    assert_eq!((tenant.ratio.as_f64(), tenant.floor), (1.0, Rate::per_second(1).unwrap()));
    assert!(!fleet.poison_guard);
    refused(&[
        ("poison_guard: perhaps", "5:15: poison_guard: \"perhaps\" is not true or false"),
        ("placement: { choose: any }", "5:22: placement.choose: \"any\" is not primary or balance"),
        (
            "retry_budget: { ration: 1 }",
            "5:17: retry_budget.ration: unknown key `ration`; did you mean `ratio`?",
        ),
    ]);
}

#[test]
fn by_default_a_header_from_loopback_names_the_tenant() {
    // P39
    let sources = with("").tenant.sources;
    let [source] = sources.as_slice() else { panic!("{sources:?}") };
    let SourceKind::Header { name, trusted } = &source.kind else { panic!("{source:?}") };
    assert_eq!((name.as_str(), trusted), ("x-tenant-id", &Trusted::loopback()));
    assert!(!source.must_agree);
}

#[test]
fn without_plans_everybody_has_the_default_plan() {
    let fleet = with("");
    let bucket = Bucket { sustained: Rate::per_second(1000).unwrap(), burst: 2000 };
    let [plan] = fleet.plans.as_slice() else { panic!("{:?}", fleet.plans) };
    assert_eq!((plan.name.as_str(), plan.bucket, plan.max_in_flight), ("default", bucket, 200));
    assert_eq!(fleet.tenant.plan_for(&tenant("anybody")), Some(PlanIndex(0)));
}

#[test]
fn with_plans_the_unknown_are_refused_unless_the_file_names_their_plan() {
    // P36
    let plans = "plans:
  pro: { sustained: 200/s, burst: 500, max_in_flight: 50 }
  free: { sustained: 20/s, burst: 100, max_in_flight: 10 }
";
    let plan_of =
        |unknown: &str| with(&format!("{plans}tenant: {{ plan_of: {{ t: pro }}{unknown} }}")).tenant;
    // Plans are sorted by name: free, pro.
    for refusing in [plan_of(""), plan_of(", unknown: refuse")] {
        assert_eq!(refusing.plan_for(&tenant("t")), Some(PlanIndex(1)));
        assert_eq!(refusing.plan_for(&tenant("u")), None);
    }
    assert_eq!(plan_of(", unknown: free").plan_for(&tenant("u")), Some(PlanIndex(0)));
}

#[test]
fn the_class_default_always_exists() {
    let cell = with("").cell;
    assert_eq!((cell.max_in_flight, cell.tenant_share.of(40), cell.max_tenants), (200, 10, 10_000));
    let [class] = cell.classes.as_slice() else { panic!("{:?}", cell.classes) };
    assert_eq!(class.name.as_str(), "default");
    assert_eq!((class.priority, class.floor, class.ceiling, class.queue), (1, 0, 200, 20));
    assert_eq!(class.max_wait, Duration::from_millis(100));

    let cell = with("cell: { max_in_flight: 50, classes: { search: { floor: 5 } } }").cell;
    let names: Vec<_> = cell.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["default", "search"]);
    assert_eq!((cell.classes[0].ceiling, cell.classes[1].ceiling, cell.classes[1].queue), (50, 50, 0));
}

#[test]
fn the_files_order_decides_nothing() {
    let fleet = |first: &str, second: &str| {
        let text = format!("fleet: f\ncells:\n  - {first}\n  - {second}\n");
        crate::parse(&text).unwrap().fleet
    };
    let (a, b) = ("{ id: a, url: 'http://a:1' }", "{ id: b, url: 'http://b:1' }");
    assert_eq!(fleet(a, b), fleet(b, a));
}
