//! The alert rules that come with the product, judged by Prometheus's own `promtool`: they are well formed, each is raised
//! just beyond its bound and not just inside, and what they name is what routers and agents show.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

use cofferdam_router::{Settings, SharedStore};
use serde_json::Value;

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::processes::{Process, free_port};
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");
const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");
const TESTS: [&str; 2] = [
    include_str!("../../deploy/prometheus/alerts_test.yaml"),
    include_str!("../../deploy/prometheus/alerts_days_test.yaml"),
];

/// Labels that Prometheus adds to what it scrapes.
const ADDED: [&str; 2] = ["instance", "job"];

/// Runs `promtool`, which `tests/prerequisites.sh` installs.
fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(FOLDER).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("no promtool");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn must(arguments: &[&str], input: &str) {
    let output = promtool(arguments, input);
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

#[test]
fn promtool_finds_the_rules_well_formed_and_each_alert_raised_beyond_its_bound_and_not_inside() {
    // P17
    must(&["check", "rules", "alerts.yaml"], "");
    must(&["test", "rules", "alerts_test.yaml", "alerts_days_test.yaml"], "");
}

/// Every test of the rules.
fn tests() -> Vec<Value> {
    let read = |text| serde_saphyr::from_str::<Value>(text).unwrap();
    let all = TESTS.map(|text| read(text)["tests"].as_array().unwrap().clone());
    all.concat()
}

#[test]
fn every_alert_is_tested_on_both_sides_of_its_bound() {
    let alerts: BTreeSet<_> =
        RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let mut tested: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for rule in tests().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap().clone()) {
        let is_raised = !rule["exp_alerts"].as_array().unwrap().is_empty();
        tested.entry(rule["alertname"].as_str().unwrap().to_owned()).or_default().insert(is_raised);
    }
    for alert in alerts {
        let sides = tested.remove(alert).unwrap_or_default();
        assert_eq!(sides.len(), 2, "{alert} is to be seen raised and not raised");
    }
    assert!(tested.is_empty(), "no such alerts: {tested:?}");
}

/// The series that the tests of the rules are made of: a metric's name, and the names of its labels.
fn series() -> BTreeSet<(String, BTreeSet<String>)> {
    let all = tests();
    let texts = all.iter().flat_map(|test| test["input_series"].as_array().unwrap());
    texts.map(|series| parts(series["series"].as_str().unwrap())).collect()
}

/// A series' name, and the names of its labels without those that Prometheus adds.
fn parts(series: &str) -> (String, BTreeSet<String>) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let names = labels
        .trim_end_matches('}')
        .split("\",")
        .filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
    (name.to_owned(), names.filter(|name| !ADDED.contains(&name.as_str())).collect())
}

/// The metrics that the rules name.
fn named() -> BTreeSet<&'static str> {
    let expressions = RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let is_part = |character: char| !character.is_ascii_alphanumeric() && character != '_';
    let words = expressions.flat_map(move |expression| expression.split(is_part));
    words.filter(|word| word.starts_with("cofferdam_")).collect()
}

/// The text of a probe listener's `/metrics`, as a scraper that accepts this reads it.
async fn scraped(probes: std::net::SocketAddr, accept: &str) -> raw::Answer {
    raw::ask(probes, format!("GET /metrics HTTP/1.1\r\nhost: probe\r\n{accept}\r\n")).await
}

/// A router with a store, one without, agents with breakers and caps, and one that allows drills, all of which have served.
struct Shown {
    fleet: TestFleet,
    sharing: TestRouter,
    _store: RedisServer,
    drilled: Process,
    drilled_probes: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Shown {
    async fn start() -> Self {
        let guarded = "dependencies: { db: { max_in_flight: 5 } }, breaker: {}";
        let fleet = TestFleet::start(&format!("cell: {{ {guarded} }}")).await;
        let store = RedisServer::start();
        let budget = std::time::Duration::from_secs(5);
        let shared = Some(SharedStore { endpoint: store.url().parse().unwrap(), budget });
        let text = alone(fleet.cells[0].backend.address, "");
        let sharing = TestRouter::with(&text, Settings { store: shared, ..settings() }, 1);
        assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
        eventually("the sharing router to serve", async || {
            (sharing.ask(get("/", "acme")).await.status() == 200).then_some(())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet.yaml");
        std::fs::write(&file, text).unwrap();
        let probes = free_port();
        let arguments = [
            "agent",
            "--cell",
            "cell-a",
            "--allow-drills",
            "--admin",
            "127.0.0.1:0",
            "--listen",
            "127.0.0.1:0",
        ];
        let at = ["--probe-listen", &probes.to_string(), "--fleet", file.to_str().unwrap()];
        let drilled = Process::start(folder.path(), "agent", &[&arguments[..], &at[..]].concat());
        eventually("an agent that is asked", async || tokio::net::TcpStream::connect(probes).await.ok())
            .await;
        Self { fleet, sharing, _store: store, drilled, drilled_probes: probes, _folder: folder }
    }

    fn probes(&self) -> [std::net::SocketAddr; 4] {
        [self.fleet.router.probes, self.sharing.probes, self.fleet.cells[0].probes, self.drilled_probes]
    }
}

#[tokio::test]
async fn every_series_that_alerts_are_made_of_is_shown_by_a_router_or_an_agent() {
    // P17
    let shown = Shown::start().await;
    let wanted = series();
    let names: BTreeSet<_> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, named(), "the tests of the rules have other series than the rules");
    for (name, labels) in &wanted {
        eventually(&format!("{name} with {labels:?}"), async || {
            for probes in shown.probes() {
                let text = scraped(probes, "").await.text();
                let samples = text
                    .lines()
                    .filter(|line| !line.starts_with('#'))
                    .map(|line| line.rsplit_once(' ').unwrap().0);
                if samples.map(parts).any(|(of, has)| of == *name && has == *labels) {
                    return Some(());
                }
            }
            None
        })
        .await;
    }
    assert!(shown.drilled.log().contains("agent starts"));
}

#[tokio::test]
async fn promtool_takes_what_routers_and_agents_show_in_either_format() {
    let shown = Shown::start().await;
    for probes in shown.probes() {
        let text = scraped(probes, "").await;
        assert_eq!(text.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        must(&["check", "metrics"], &text.text());
        let both =
            "accept: text/plain;version=0.0.4;q=0.5, application/openmetrics-text;version=1.0.0;q=0.8\r\n";
        let open = scraped(probes, both).await;
        assert_eq!(
            open.field("content-type"),
            Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
        );
        assert!(open.text().ends_with("# EOF\n") && !text.text().contains("# EOF"));
        for (text, what) in [(text.text(), "text"), (open.text(), "OpenMetrics")] {
            // Of each histogram the last bucket has all, and says so in the word that Prometheus knows.
            let ends = |end: &str| text.lines().filter(|line| line.contains(end)).count();
            let counts = text
                .lines()
                .filter(|line| line.split(['{', ' ']).next().unwrap().ends_with("_seconds_count"));
            assert_eq!(ends("le=\"+Inf\""), counts.count(), "{what}");
            assert_eq!(ends("e308"), 0, "{what}");
            for metric in [
                "process_cpu_seconds_total",
                "process_resident_memory_bytes",
                "process_open_fds",
                "process_max_fds",
                "process_start_time_seconds",
                "process_threads",
            ] {
                let sample = text.lines().find(|line| line.split(' ').next() == Some(metric));
                let value = sample
                    .and_then(|line| line.rsplit_once(' '))
                    .map(|(_, value)| value.parse::<f64>().unwrap());
                assert!(value.is_some_and(|value| value >= 0.0), "{metric}: {sample:?}");
            }
            let build = format!("cofferdam_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"));
            assert!(text.contains(&build), "{what}");
        }
    }
}
