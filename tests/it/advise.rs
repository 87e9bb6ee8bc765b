//! `cofferdam advise`: exact for what was saved, and able to read a live agent.

use std::path::PathBuf;

use crate::support::agents::TestFleet;
use crate::support::processes::run;
use crate::support::raw::get;

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

#[tokio::test]
async fn an_agents_own_metrics_are_what_it_reads() {
    let fleet =
        TestFleet::start("cell: { max_in_flight: 30, classes: { default: { floor: 10, queue: 5 } } }").await;
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
    assert!(home.contains("default: floor 10 -> 2, ceiling 30 -> 30, queue 5 -> 1"), "{home}");
}

#[tokio::test]
async fn a_class_whose_ceiling_follows_the_latency_goes_on_doing_so() {
    let classes = "default: { ceiling: 24, adaptive: { tolerance: 2.25 } }, search: {}";
    let fleet = TestFleet::start(&format!("cell: {{ max_in_flight: 30, classes: {{ {classes} }} }}")).await;
    let agent = format!("http://{}", fleet.cells[0].probes);
    let said = tokio::task::spawn_blocking(move || advice(&agent)).await.unwrap();
    assert!(said.contains("default: floor 0 -> 1, ceiling 24 -> 29"), "{said}");
    let (_, pasted) = said.split_once("For the fleet file:").unwrap();
    assert!(pasted.contains("ceiling: 29, queue: 0, adaptive: { tolerance: 2.25 } }"), "{pasted}");
    assert_eq!(pasted.matches("adaptive").count(), 1, "{pasted}");
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
