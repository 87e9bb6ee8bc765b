//! The command as its users call it: outputs, messages and exit codes.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::processes::{run, run_into};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/examples/fleet.yaml");

/// Checks a fleet file's text: the exit code, and what was printed.
fn check(text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, text).unwrap();
    check_file(&file)
}

fn check_file(file: &Path) -> (i32, String) {
    let output = run(&["check", "--fleet", file.to_str().unwrap()]);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
}

fn json_of(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const TWO_CELLS: &str = "fleet: f\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\n";

#[test]
fn check_takes_the_example_and_the_smallest_file() {
    let (code, printed) = check_file(Path::new(EXAMPLE));
    assert_eq!(code, 0, "{printed}");
    assert!(
        printed.contains("fleet acme-prod at revision 42 can be used: 6 cells, 4 plans, 7 routes, 4 classes")
    );
    let (code, printed) = check(TWO_CELLS);
    assert_eq!(code, 0);
    assert!(printed.contains("can be used: 2 cells, 1 plan, 1 route, 1 class"), "{printed}");
}

#[test]
fn check_says_what_limits_a_tenant_that_the_file_does_not_name() {
    let plans = "plans: { small: { sustained: 20/s, burst: 100, max_in_flight: 10 } }\n";
    for (more, expected) in [
        (
            "",
            "a tenant that tenant.plan_of does not name has plan default: 1000/s, a burst of 2000, 200 in flight, as in each file without plans",
        ),
        (
            &format!("{plans}tenant: {{ unknown: small }}\n"),
            "a tenant that tenant.plan_of does not name has plan small: 20/s, a burst of 100, 10 in flight",
        ),
        (
            &format!("{plans}tenant: {{ plan_of: {{ acme: small }} }}\n"),
            "a tenant that tenant.plan_of does not name is refused (404)",
        ),
        ("limits: { mode: off }\n", "limits.mode is off: no tenant is limited"),
    ] {
        let (code, printed) = check(&format!("{TWO_CELLS}{more}"));
        assert_eq!(code, 0, "{printed}");
        assert!(printed.ends_with(&format!("/fleet.yaml: {expected}\n")), "{printed}");
    }
}

#[test]
fn a_time_that_no_clock_can_add_is_refused_before_anything_runs() {
    let agent = ["agent", "--fleet", EXAMPLE, "--cell", "cell-a", "--backend", "http://127.0.0.1:1"];
    let router = ["router", "--fleet", EXAMPLE];
    let far = "300000000000years";
    for (command, flag) in [
        (&agent[..], "--drain-deadline"),
        (&agent[..], "--drain-grace"),
        (&agent[..], "--backend-idle"),
        (&router[..], "--drain-deadline"),
        (&router[..], "--drain-grace"),
        (&router[..], "--store-budget"),
        (&["probe"][..], "--timeout"),
        (&["advise", "--from", "http://127.0.0.1:1"][..], "--for"),
    ] {
        let output = run(&[command, &[flag, far]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("no more than 30days"), "{flag}: {said}");
    }
}

#[test]
fn every_problem_and_every_warning_starts_with_its_place() {
    let (code, printed) = check(&format!("{TWO_CELLS}cell: {{ max_in_flight: x }}\nplacment: {{}}\n"));
    assert_eq!((code, printed.lines().count()), (2, 2), "{printed}");
    for (line, place) in printed.lines().zip(["/fleet.yaml:3:24: cell.", "/fleet.yaml:4:1: placment: "]) {
        assert!(line.starts_with('/') && line.contains(place), "{line}");
    }
    let (_, printed) = check(TWO_CELLS);
    let warning = "/fleet.yaml:2:8: warning: cells: all cells are in one zone";
    assert!(printed.starts_with('/') && printed.contains(warning), "{printed}");
}

#[test]
fn check_warns_of_the_default_tenant_source_beyond_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    let warns = |text: &str, listen: &str| {
        std::fs::write(&file, text).unwrap();
        let output = run(&["check", "--fleet", file.to_str().unwrap(), "--listen", listen]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().contains("warning: tenant.from is left out")
    };
    assert!(warns(TWO_CELLS, "0.0.0.0:7000"));
    assert!(warns(TWO_CELLS, "[::]:7000"));
    assert!(!warns(TWO_CELLS, "127.0.0.1:7000"));
    assert!(!warns(TWO_CELLS, "[::1]:7000"));
    let named =
        format!("{TWO_CELLS}tenant: {{ from: [{{ host: {{ pattern: '{{tenant}}.app.example' }} }}] }}\n");
    assert!(!warns(&named, "0.0.0.0:7000"));
}

#[test]
fn check_says_what_is_wrong_and_where_and_exits_with_2() {
    // P55: a queue without a bound.
    // The caret stands before what is wrong, all on the file's third line.
    for (rest, key, message) in [
        ("cell: { max_in_flight: ^x }", "cell.max_in_flight", "\"x\""),
        ("cell: { classes: { default: { queue: ^-1 } } }", "cell.classes.default.queue", "-1"),
        ("cell: { classes: { default: { queue: ^unbounded } } }", "cell.classes.default.queue", "unbounded"),
        ("placement: { shard_size: ^3 }", "placement.shard_size", "shard size 3 exceeds 2 active cells"),
        ("^placment: {}", "placment", "placement"),
        ("routes: [{ match: { path: / }, class: ^serach }]", "routes[0].class", "serach"),
        ("placement: { pins: { t: [a, ^c] } }", "placement.pins.t[1]", "c"),
        ("cell: { max_in_flight: 5, classes: ^{ default: { floor: 9 } } }", "cell.classes", "9"),
    ] {
        let (code, printed) = check(&format!("{TWO_CELLS}{}\n", rest.replace('^', "")));
        assert_eq!(code, 2, "{rest}\n{printed}");
        let place = format!("fleet.yaml:3:{}: {key}: ", rest.find('^').unwrap() + 1);
        assert!(printed.contains(&place) && printed.contains(message), "{rest}\n{printed}");
    }
}

#[test]
fn a_file_that_is_not_there_or_not_yaml_exits_with_2() {
    let (code, printed) = check_file(Path::new("nowhere/fleet.yaml"));
    assert_eq!(code, 2);
    assert!(printed.starts_with("cofferdam: nowhere/fleet.yaml: "), "{printed}");
    assert_eq!(printed.matches("No such file").count(), 1, "{printed}");
    assert_eq!(check("fleet: [\n").0, 2);
    let router = run(&["router", "--fleet", "nowhere/fleet.yaml"]);
    assert_eq!(router.status.code(), Some(2));
}

#[test]
fn an_agent_for_a_cell_that_the_file_lacks_exits_with_2() {
    let output = run(&["cell", "--fleet", EXAMPLE, "--cell", "cell-z", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cell-z"));
    let output = run(&["cell", "--fleet", EXAMPLE, "--cell", "cel-a", "--listen", "127.0.0.1:0"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `cell-a`?"));
}

#[test]
fn place_prints_slot_shard_and_reason() {
    let rows = json_of(&["place", "--fleet", EXAMPLE, "--output", "json", "bigcorp", "acme"]);
    assert_eq!(rows[0]["tenant"], "bigcorp");
    assert_eq!((&rows[0]["shard"], &rows[0]["reason"]), (&json!(["cell-c", "cell-d"]), &json!("pin")));
    assert_eq!(rows[1]["reason"], "slot");
    assert!(rows[1]["slot"].as_u64().unwrap() < 65_536);
    let shard: Vec<String> = serde_json::from_value(rows[1]["shard"].clone()).unwrap();
    assert!(shard.len() == 2 && shard[0] != shard[1] && shard.iter().all(|cell| cell.starts_with("cell-")));
    let again = json_of(&["place", "--fleet", EXAMPLE, "--output", "json", "bigcorp", "acme"]);
    assert_eq!(rows, again);
    let table = String::from_utf8(run(&["place", "--fleet", EXAMPLE, "acme"]).stdout).unwrap();
    assert!(table.contains("acme") && table.contains(&shard.join(", ")), "{table}");
    assert!(!run(&["place", "--fleet", EXAMPLE, "NOT A TENANT"]).status.success());
}

#[test]
fn blast_radius_prints_pairs_overlap_and_coverage() {
    // P10
    let blast =
        json_of(&["blast-radius", "--cells", "8", "--shard-size", "2", "--bad", "1", "--output", "json"]);
    assert_eq!(blast["pairs"], 28);
    let overlap: Vec<f64> = serde_json::from_value(blast["overlap"].clone()).unwrap();
    assert_eq!(overlap.len(), 3);
    assert!((overlap.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((overlap[2] - 1.0 / 28.0).abs() < 1e-9 && (overlap[0] - 15.0 / 28.0).abs() < 1e-9);
    assert!((blast["fully_covered"].as_f64().unwrap() - 1.0 / 28.0).abs() < 1e-9);
    assert!(!run(&["blast-radius", "--cells", "1", "--shard-size", "2"]).status.success());
}

#[test]
fn size_prints_places() {
    // P5, P37
    for (arguments, places) in [
        (&["--rate", "10", "--p99", "2s"][..], "26"),
        (&["--rate", "100", "--p99", "500ms"], "65"),
        (&["--rate", "1000", "--p99", "10ms"], "13"),
        (&["--rate", "10", "--p99", "2s", "--buffer", "1"], "20"),
        // P6: by Erlang's formula, and what a size refuses.
        (&["--rate", "100", "--mean", "40ms"], "10"),
        (&["--rate", "100", "--mean", "40ms", "--loss", "0.001"], "12"),
        (&["--rate", "100", "--mean", "40ms", "--places", "5"], "0.19907"),
    ] {
        let output = run(&[&["size"], arguments].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.split_whitespace().next(), Some(places), "{arguments:?}");
    }
}

#[test]
fn openapi_gets_the_limits_of_a_plan_at_each_operation() {
    // P50
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spec.yaml");
    let spec = "openapi: 3.1.0\npaths:\n  /v1/search:\n    get:\n      summary: Search\n  /v1/things/{id}:\n    \
                delete:\n      summary: Delete\n  /health:\n    get:\n      summary: Health\n";
    std::fs::write(&file, spec).unwrap();
    let openapi = |more: &[&str]| {
        let arguments = ["limits", "openapi", file.to_str().unwrap(), "--fleet", EXAMPLE];
        run(&[&arguments[..], more].concat())
    };
    let printed = String::from_utf8(openapi(&[]).stdout).unwrap();
    // The plan `free`: 20/s and 100, of which a search costs 8; its route has 2/s and 20 of its own.
    let expected = spec
        .replace(
            "summary: Search",
            "x-ratelimit-limit: \"2/s\"\n      x-ratelimit-burst: 12\n      summary: Search",
        )
        .replace(
            "summary: Delete",
            "x-ratelimit-limit: \"20/s\"\n      x-ratelimit-burst: 100\n      summary: Delete",
        );
    assert_eq!(printed, expected);
    let pro = String::from_utf8(openapi(&["--plan", "pro"]).stdout).unwrap();
    assert!(pro.contains("x-ratelimit-limit: \"200/s\"\n      x-ratelimit-burst: 500\n"), "{pro}");
    assert!(pro.contains("x-ratelimit-limit: \"2/s\"\n      x-ratelimit-burst: 20\n"), "{pro}");
    let refused = openapi(&["--plan", "pros"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("did you mean `pro`?"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    for arguments in [&["blast-radius", "--cells", "8"][..], &["check", "--fleet", EXAMPLE]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = run_into(writer, arguments);
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !complaint.contains("panicked"), "{arguments:?}: {complaint}");
    }
}
