//! `cofferdam advise`: exact for what was saved, and able to read a live agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_fleet::Fleet;

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::metrics::scrape;
use crate::support::processes::run;
use crate::support::raw::{ask, get};

fn saved(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/it/advise/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn advice(from: &str) -> String {
    let output = run(&["advise", "--from", from]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn saved_metrics_give_exactly_the_advice_written_beside_them() {
    // P8, P17, P20
    for name in ["shop", "single", "overfull"] {
        let expected = std::fs::read_to_string(saved(&format!("{name}.advice"))).unwrap();
        let said = advice(saved(&format!("{name}.metrics")).to_str().unwrap());
        assert_eq!(said, expected, "{name}");
    }
}

/// The fleet that a fragment makes of two cells.
fn fleet_of(advice: &str) -> Fleet {
    let (_, fragment) = advice.split_once("For the fleet file:\n").unwrap();
    let cells = "[{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]";
    match Fleet::parse(&format!("fleet: f\ncells: {cells}\n{fragment}"), Path::new(".")) {
        Ok(loaded) => loaded.fleet,
        Err(error) => panic!("{fragment}\n{error}"),
    }
}

#[test]
fn every_fragment_can_be_pasted_and_leaves_the_waits_as_they_are() {
    for (name, class, wait_ms) in
        [("shop", "search", 50), ("single", "default", 100), ("overfull", "checkout", 100)]
    {
        let fleet = fleet_of(&std::fs::read_to_string(saved(&format!("{name}.advice"))).unwrap());
        let at = fleet.cell.class_index(class).unwrap().get();
        assert_eq!(fleet.cell.classes[at].max_wait, Duration::from_millis(wait_ms), "{name}");
    }
    let (single, folder) =
        (std::fs::read_to_string(saved("single.metrics")).unwrap(), tempfile::tempdir().unwrap());
    let set = r#"cofferdam_agent_max_wait_seconds{class="default"} 0.1"#;
    assert!(single.contains(set));
    for (seconds, us) in [
        ("0.0505", 50_500),
        ("0.999", 999_000),
        ("1.0", 1_000_000),
        ("1.25", 1_250_000),
        ("1.5", 1_500_000),
        ("2.000001", 2_000_001),
        ("59.99", 59_990_000),
    ] {
        let odd = single.replace(set, &set.replace("0.1", seconds));
        let saved = folder.path().join("odd.metrics");
        std::fs::write(&saved, odd).unwrap();
        let fleet = fleet_of(&advice(saved.to_str().unwrap()));
        assert_eq!(fleet.cell.classes[0].max_wait, Duration::from_micros(us), "{seconds}");
    }
}

#[test]
fn dependencies_that_have_caps_say_whether_there_is_anything_to_keep_apart() {
    // P20
    let warnings = |saved: &Path, dependencies: &[&str]| {
        let capped: String = dependencies
            .iter()
            .map(|name| format!("cofferdam_agent_cap_limit{{kind=\"dependency\",name=\"{name}\"}} 5\n"))
            .collect();
        let route = "cofferdam_agent_cap_limit{kind=\"route\",name=\"GET /\"} 5\n";
        let (folder, text) = (tempfile::tempdir().unwrap(), std::fs::read_to_string(saved).unwrap());
        let metrics = folder.path().join("capped.metrics");
        std::fs::write(&metrics, text.replace("# EOF", &format!("{route}{capped}# EOF"))).unwrap();
        let said = advice(metrics.to_str().unwrap());
        let apart = said.lines().filter(|line| line.contains("nothing to keep apart"));
        apart.map(str::to_owned).collect::<Vec<_>>()
    };
    let (shop, single) = (saved("shop.metrics"), saved("single.metrics"));
    assert_eq!(warnings(&single, &["db", "mail"]), [""; 0], "one class, and two dependencies");
    let one = "warning: db alone has a cap of its own: with one dependency there is nothing to keep apart";
    assert_eq!(warnings(&shop, &["db"]), [one], "four classes, and one dependency");
    assert_eq!(warnings(&shop, &[]), [""; 0]);
}

#[tokio::test]
async fn an_agents_own_metrics_are_what_it_reads() {
    let capped = "dependencies: { db: { max_in_flight: 5 } }";
    let classes = "classes: { default: { floor: 10, queue: 5 } }";
    let fleet = TestFleet::start(&format!("cell: {{ max_in_flight: 30, {classes}, {capped} }}")).await;
    for _ in 0..3 {
        assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
    }
    fleet.idle().await;
    let agents: Vec<_> = fleet.cells.iter().map(|cell| format!("http://{}", cell.probes)).collect();
    let ask = move || agents.iter().map(|agent| advice(agent)).collect::<Vec<_>>();
    let said = tokio::task::spawn_blocking(ask).await.unwrap();
    let home =
        said.iter().find(|said| said.contains("3 holds are too few")).expect("one cell is the tenant's home");
    assert!(home.contains("in a cell of 30 places"), "{home}");
    assert!(home.contains("default: floor 10 -> 10, ceiling 30 -> 30, queue 5 -> 5"), "{home}");
    assert!(home.contains("kept as it is: 3 holds are fewer than 1000"), "{home}");
    assert!(home.contains("warning: db alone has a cap of its own"), "{home}");
}

#[tokio::test]
async fn a_class_whose_ceiling_follows_the_latency_goes_on_doing_so() {
    let classes = "default: { ceiling: 24, adaptive: { tolerance: 2.25 } }, search: {}";
    let fleet = TestFleet::start(&format!("cell: {{ max_in_flight: 30, classes: {{ {classes} }} }}")).await;
    let agent = format!("http://{}", fleet.cells[0].probes);
    let said = tokio::task::spawn_blocking(move || advice(&agent)).await.unwrap();
    assert!(said.contains("default: floor 0 -> 0, ceiling 24 -> 24"), "{said}");
    assert_eq!(fleet_of(&said).cell.classes[0].adaptive.unwrap().tolerance_thousandths, 2250);
    let (_, pasted) = said.split_once("For the fleet file:").unwrap();
    assert!(pasted.contains("ceiling: 24, queue: 0, adaptive: { tolerance: 2.25 } }"), "{pasted}");
    assert_eq!(pasted.matches("adaptive").count(), 1, "{pasted}");
}

#[tokio::test]
async fn a_tenant_that_floods_a_class_is_no_demand_for_it() {
    let classes = "classes: { default: { floor: 8, ceiling: 16, queue: 0 } }";
    let fleet = TestFleet::start(&format!("cell: {{ max_in_flight: 30, {classes} }}")).await;
    // Four places are the tenant's share; what is beyond them is refused, again and again.
    let held: Vec<_> = (0..4).map(|_| ask(fleet.router.data, get("/slow/1500", "acme"))).collect();
    let held = tokio::spawn(futures_util::future::join_all(held));
    let agents: Vec<_> = fleet.cells.iter().map(|cell| cell.probes).collect();
    let holding = async || {
        let mut held = 0.0;
        for agent in &agents {
            held += scrape(*agent).await.sum("cofferdam_agent_places_in_use", &[]);
        }
        (held == 4.0).then_some(())
    };
    eventually("four places held", holding).await;
    for _ in 0..50 {
        assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 429);
    }
    assert!(held.await.unwrap().iter().all(|answer| answer.status() == 200));
    fleet.idle().await;
    let agents: Vec<_> = agents.iter().map(|agent| format!("http://{agent}")).collect();
    let advised = move || agents.iter().map(|agent| advice(agent)).collect::<Vec<_>>();
    let said = tokio::task::spawn_blocking(advised).await.unwrap();
    let home = said.iter().find(|said| said.contains("default") && said.contains("of 54 requests"));
    let home = home.unwrap_or_else(|| panic!("{said:?}"));
    let row: Vec<_> =
        home.lines().find(|line| line.starts_with("default ")).unwrap().split_whitespace().collect();
    assert_eq!((row[1], row[2]), ("54", "4"), "{home}");
    let told = "refused: of 54 requests 50 beyond a tenant's share and 0 for want of a place; with these sizes 50 and about 0";
    assert!(home.contains(told), "{home}");
}

#[test]
fn what_is_no_agent_is_refused_with_the_reason() {
    for (from, why) in
        [("Cargo.toml", "is no agent's /metrics"), ("no such file", "cannot read no such file")]
    {
        let output = run(&["advise", "--from", from]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}
