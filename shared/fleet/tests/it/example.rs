//! The example that ships with the product is a fleet without a fault.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use cofferdam_fleet::{Fleet, Loaded, SourceKind};
use cofferdam_model::{CellState, TenantId};
use http::Method;

fn example() -> Loaded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/fleet.yaml");
    Fleet::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_example_loads_without_a_warning() {
    let Loaded { fleet, warnings, .. } = example();
    assert_eq!(warnings, []);
    assert_eq!((fleet.name.as_str(), fleet.revision.0), ("acme-prod", 42));
    let ids: Vec<_> = fleet.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["cell-a", "cell-b", "cell-c", "cell-d", "cell-e", "ward-1"]);
    assert_eq!((fleet.cells[4].state, fleet.cells[5].state), (CellState::Draining, CellState::Quarantine));
    assert_eq!(fleet.cells[2].weight.thousandths(), 2000);
    assert_eq!(fleet.cells[0].probe.as_ref().unwrap().authority(), "10.0.1.10:7101");
    let pin = &fleet.placement.pins[0];
    assert_eq!(
        (pin.tenant.as_str(), pin.cells.iter().map(|cell| cell.get()).collect()),
        ("bigcorp", vec![2, 3])
    );
}

#[test]
fn the_examples_sources_are_ready_to_use() {
    let sources = example().fleet.tenant.sources;
    let [header, host, path] = sources.as_slice() else { panic!("{sources:?}") };
    assert!(!header.must_agree && host.must_agree && !path.must_agree);
    let SourceKind::Header { name, trusted } = &header.kind else { panic!("{header:?}") };
    assert_eq!(name.as_str(), "x-tenant-id");
    let trusts = |peer: &str| trusted.trusts(peer.parse::<IpAddr>().unwrap());
    assert!(trusts("10.1.2.3") && trusts("::ffff:10.1.2.3") && !trusts("127.0.0.1"));
    let SourceKind::Host(host) = &host.kind else { panic!("{host:?}") };
    assert_eq!(&*host.suffix, ".app.example");
    assert!(host.reserved.contains("www") && !host.reserved.contains("acme"));
    let SourceKind::Path(path) = &path.kind else { panic!("{path:?}") };
    assert_eq!(&*path.prefix, "/t/");
}

#[test]
fn the_examples_plans_and_routes_resolve() {
    let fleet = example().fleet;
    let plan = |id: &str| {
        let tenant = TenantId::parse(id.as_bytes(), &fleet.tenant.alphabet).unwrap();
        fleet.plans[fleet.tenant.plan_for(&tenant).unwrap().get()].name.as_str()
    };
    assert_eq!((plan("bigcorp"), plan("some_body")), ("enterprise", "free"));
    let route = fleet.classify(&Method::GET, "/v1/search/x", Some("deep=1"));
    assert_eq!((route.cost, route.timeout), (16, Duration::from_secs(4)));
    assert_eq!(fleet.cell.classes[route.class.get()].name.as_str(), "search");
    assert_eq!(fleet.ceiling.max_in_flight, Some(20_000));
    let quotas = |name: &str| {
        let plan = fleet.plans.iter().find(|plan| plan.name.as_str() == name).unwrap();
        plan.quotas.iter().map(|quota| (quota.window_s, quota.limit)).collect::<Vec<_>>()
    };
    assert_eq!(quotas("pro"), [(86_400, 10_000_000), (2_592_000, 200_000_000)]);
    assert_eq!((quotas("free").len(), quotas("trial").len()), (1, 0));
    let import = fleet.classify(&Method::POST, "/v1/import", None).shape.unwrap();
    assert_eq!((import.queue, import.max_wait), (10, Duration::from_secs(2)));
    assert!(route.settle && route.limit.is_none());
    let search = fleet.classify(&Method::GET, "/v1/search", None);
    assert_eq!((search.timeout, search.limit.unwrap().burst), (Duration::from_secs(2), 20));
    assert_eq!(fleet.classify(&Method::GET, "/v1/checkout", None).timeout, Duration::from_secs(1));
    let report = fleet.classify(&Method::GET, "/v1/reports", None).fallback.as_ref().unwrap();
    assert_eq!(report.last_good, Some(Duration::from_secs(3600)));
}
