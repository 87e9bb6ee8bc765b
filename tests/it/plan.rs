//! `cofferdam plan` as a process: its JSON, its table, its exit codes, and what it says of a change that is refused.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::files::{cell_id, fleet};
use crate::support::processes::{free_port, run};
use crate::support::raw::get;
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

/// Two fleet files in a folder of their own.
struct Change {
    _folder: TempDir,
    files: [PathBuf; 2],
}

/// What a run of the command came to.
struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

/// A file with these cells, each of a zone; `rest` has further sections.
fn file(revision: u64, zones: &[&str], rest: &str) -> String {
    let mut text = format!("fleet: f\nrevision: {revision}\ncells:\n");
    for (at, zone) in zones.iter().enumerate() {
        writeln!(text, "  - {{ id: {}, zone: {zone}, url: 'http://a:{}' }}", cell_id(at), at + 1).unwrap();
    }
    text + rest
}

impl Change {
    fn new(from: &str, to: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = [("old.yaml", from), ("new.yaml", to)].map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        Self { _folder: folder, files }
    }

    fn plan(&self, flags: &[&str]) -> Done {
        let [from, to] = self.files.each_ref().map(|path| path.to_str().unwrap());
        let output = run(&[&["plan", "--from", from, "--to", to], flags].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Done {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Shares over 65,536 slots are within five standard deviations of what they are expected to be.
fn near(share: &Value, expected: f64) {
    let (share, sigma) = (share.as_f64().unwrap(), (expected * (1.0 - expected) / 65_536.0).sqrt());
    assert!((share - expected).abs() < 5.0 * sigma, "{share} beside {expected}");
}

/// A lone cell in a second zone is in every pair.
fn lopsided() -> Change {
    let lone = [&["east"; 8][..], &["west"]].concat();
    Change::new(&file(1, &["east"; 8], ""), &file(2, &lone, ""))
}

#[test]
fn a_ninth_cell_moves_two_ninths_and_passes() {
    let change = Change::new(&file(1, &["east"; 8], ""), &file(2, &["east"; 9], ""));
    let done = change.plan(&["--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let json = done.json();
    let mut keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let words = [
        "cells",
        "changes",
        "moved",
        "moved_twice",
        "primary_moved",
        "refused",
        "share_both",
        "tenants",
        "violations",
    ];
    assert_eq!(keys, words);
    near(&json["moved"], 2.0 / 9.0);
    near(&json["primary_moved"], 1.0 / 9.0);
    assert!((json["share_both"].as_f64().unwrap() - 1.0 / 36.0).abs() < 1e-4);
    assert_eq!(
        (&json["moved_twice"], &json["violations"], &json["refused"]),
        (&json!(0.0), &json!([]), &json!([]))
    );
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    for (at, cell) in cells.iter().enumerate() {
        assert_eq!((&cell["id"], cell.as_object().unwrap().len()), (&json!(cell_id(at)), 3));
        near(&cell["inclusion"], 2.0 / 9.0);
        near(&cell["primary"], 1.0 / 9.0);
    }
    // The same twice: nothing is sampled.
    assert_eq!(change.plan(&["--json"]).stdout, done.stdout);
}

#[test]
fn the_table_shows_before_and_after_for_the_fleet_and_each_cell() {
    let change = Change::new(&file(1, &["east"; 8], ""), &file(2, &["east"; 7], ""));
    let done = change.plan(&[]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    let line = |start: &str| {
        let found = done.stdout.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {}", done.stdout)).trim_end().to_owned()
    };
    assert!(line("revision").contains("1 -> 2"));
    assert!(line("two tenants share all cells").contains("3.57 % -> 4.76 %"), "{}", done.stdout);
    assert!(line("after").contains("21 sets of cells"));
    assert!(line("cell-h").contains("-> none") && line("cell-h").ends_with("gone"));
    // Seven carry what eight did.
    let change: f64 = line("cell-a").split('+').next_back().unwrap().replace('%', "").trim().parse().unwrap();
    assert!((change - 100.0 / 7.0).abs() < 3.0, "{change}");
}

#[test]
fn a_cell_that_would_be_in_every_pair_is_refused_and_a_reason_forces_it() {
    let change = lopsided();
    let done = change.plan(&["--json"]);
    assert_eq!(done.code, 1);
    let refused = done.json()["refused"].as_array().unwrap().clone();
    let why = "cell cell-i would be in 65536 of 65536 slots";
    assert!(refused.iter().any(|refusal| refusal.as_str().unwrap().starts_with(why)), "{refused:?}");
    assert!(done.stderr.contains(&format!("cofferdam: refused: {why}")), "{}", done.stderr);
    let forced = change.plan(&["--json", "--force", "the west opens today"]);
    assert_eq!((forced.code, &forced.stdout), (0, &done.stdout));
    assert!(
        forced.stderr.ends_with("cofferdam: passes by force: the west opens today\n"),
        "{}",
        forced.stderr
    );
    let table = change.plan(&[]);
    assert_eq!(table.code, 1);
    assert!(table.stderr.contains(why));
    // Exit code 1 is the gate's: a word that is not understood is another's fault.
    for reason in ["", " "] {
        let done = change.plan(&["--force", reason]);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""));
        assert!(done.stderr.contains("--force <REASON>"), "{}", done.stderr);
    }
}

#[test]
fn what_moves_more_than_it_must_is_refused() {
    let old = file(1, &["east"; 8], "");
    // One cell for another at once; and everybody anew.
    for (new, why) in [
        (old.replace("cell-d", "cell-z"), "change cells in steps"),
        (format!("{old}placement: {{ seed: 1 }}\n"), "the map's seed changes"),
        (format!("{old}placement: {{ slots: 1048576 }}\n"), "slots change from 65536 to 1048576"),
        (format!("{old}placement: {{ max_inclusion: 0.2 }}\n"), "are the most by max_inclusion"),
    ] {
        let done = Change::new(&old, &new.replace("revision: 1", "revision: 2")).plan(&[]);
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains(why), "{why}: {}", done.stderr);
    }
}

#[test]
fn a_files_own_reason_forces_one_change_and_not_the_next() {
    let (east, lone) = (["east"; 8], [&["east"; 8][..], &["west"]].concat());
    let reason = "placement: { force: the west opens }\n";
    let done = Change::new(&file(1, &east, ""), &file(2, &lone, reason)).plan(&[]);
    assert_eq!(done.code, 0);
    assert!(done.stderr.contains("passes by force: the west opens"), "{}", done.stderr);
    let next = file(3, &lone, reason).replace("cell-d", "cell-z");
    let done = Change::new(&file(2, &lone, reason), &next).plan(&[]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    let again = next.replace("the west opens", "d leaves for z");
    assert_eq!(Change::new(&file(2, &lone, reason), &again).plan(&[]).code, 0);
}

#[test]
fn a_pin_within_a_zone_is_told_and_passes() {
    let zones = ["east", "east", "west", "west"];
    let pins = "placement: { pins: { acme: [cell-a, cell-b] } }\n";
    let done = Change::new(&file(1, &zones, ""), &file(2, &zones, pins)).plan(&["--json"]);
    assert_eq!((done.code, done.json()["moved"].as_f64()), (0, Some(0.0)));
    let violations = json!(["pin of acme: cell-a and cell-b are both in zone east"]);
    assert_eq!(done.json()["violations"], violations);
}

#[test]
fn a_file_that_no_router_would_take_is_told_and_one_that_is_none_exits_with_2() {
    let old = file(5, &["east"; 2], "");
    let done = Change::new(&old, &file(4, &["east"; 3], "")).plan(&[]);
    assert_eq!(done.code, 0);
    assert!(done.stderr.contains("revision 4 does not follow 5"), "{}", done.stderr);
    assert_eq!(Change::new(&old, &old).plan(&[]).stderr, "");
    let done = Change::new(&old, &file(5, &["east"; 3], "")).plan(&[]);
    assert!(done.stderr.contains("revision 5 does not follow 5"), "{}", done.stderr);
    let done = Change::new(&old, &file(6, &["east"; 2], "").replace("fleet: f", "fleet: g")).plan(&[]);
    assert!(done.stderr.contains("fleet g is not f"), "{}", done.stderr);
    for (from, to) in [(old.as_str(), "fleet: ["), ("fleet: [", old.as_str())] {
        assert_eq!(Change::new(from, to).plan(&["--json"]).code, 2);
    }
}

/// The changes of a run with `--json`: each setting with its values, and the known tenants that it touches.
fn changes(done: &Done) -> Vec<(String, Value, Value, u64, bool)> {
    let change = |change: &Value| {
        let setting = change["setting"].as_str().unwrap().to_owned();
        let (before, after) = (change["before"].clone(), change["after"].clone());
        (setting, before, after, change["tenants"].as_u64().unwrap(), change["others"].as_bool().unwrap())
    };
    done.json()["changes"].as_array().unwrap().iter().map(change).collect()
}

#[test]
fn a_default_plan_that_gets_smaller_is_told_with_the_tenants_that_it_touches() {
    let plans = |sustained: &str| {
        format!(
            "plans: {{ default: {{ sustained: {sustained}, burst: 2000, max_in_flight: 200 }}, \
             big: {{ sustained: 9k/s, burst: 9k, max_in_flight: 900 }} }}\n\
             tenant: {{ unknown: default, plan_of: {{ acme: big, globex: default }} }}\n"
        )
    };
    let change = Change::new(&file(1, &["east"; 8], &plans("1000/s")), &file(2, &["east"; 8], &plans("5/s")));
    let done = change.plan(&["--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_eq!(done.json()["tenants"], json!({ "known": 2, "moved": 0 }));
    let sustained = ("plans.default.sustained".to_owned(), json!("1000/s"), json!("5/s"));
    let revision = ("revision".to_owned(), json!("1"), json!("2"), 0, false);
    assert_eq!(changes(&done), [revision, (sustained.0, sustained.1, sustained.2, 1, true)]);
    let table = change.plan(&[]);
    let line = table.stdout.lines().find(|line| line.contains("plans.default.sustained")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words, ["plans.default.sustained", "1000/s", "5/s", "1", "of", "2,", "and", "others"]);
    assert!(table.stdout.contains("0 of 2 that are known"), "{}", table.stdout);
    // Whoever stands on a list is known.
    let list = change.files[0].with_file_name("tenants");
    std::fs::write(&list, "hooli\nacme\ninitech # small\n").unwrap();
    let done = change.plan(&["--json", "--tenants", list.to_str().unwrap()]);
    assert_eq!((done.json()["tenants"]["known"].as_u64(), changes(&done)[1].3), (Some(4), 3));
}

#[test]
fn a_file_that_changes_no_setting_says_so_and_a_long_list_of_changes_is_cut_short() {
    let old = file(1, &["east"; 3], "");
    let done = Change::new(&old, &old.replace("revision: 1", "revision: 2")).plan(&[]);
    assert!(done.stdout.ends_with("No other setting changes.\n"), "{}", done.stdout);
    let plan = "plans: { p: { sustained: 1/s, burst: 1, max_in_flight: 1 } }\n";
    let named: Vec<_> = (0..25).map(|at| format!("t{at}: p")).collect();
    let named = format!("{plan}tenant: {{ plan_of: {{ {} }} }}\n", named.join(", "));
    let change = Change::new(&file(1, &["east"; 3], plan), &file(2, &["east"; 3], &named));
    let text = change.plan(&[]).stdout;
    assert_eq!(text.matches("tenant.plan_of.t").count(), 20, "{text}");
    assert!(text.contains("and 5 more of tenant.plan_of, not shown (--json has all)"), "{text}");
    assert_eq!(changes(&change.plan(&["--json"])).len(), 26);
}

#[test]
fn a_cell_a_pin_and_a_characters_change_count_their_own_tenants() {
    let with = |rest: &str| {
        format!(
            "tenant: {{ extra_characters: '_', unknown: p }}\nplans: {{ p: {{ sustained: 1/s, burst: 1, max_in_flight: 1 }} }}\n{rest}"
        )
    };
    let pins = "placement: { pins: { acme: [cell-a, cell-b], globex: [cell-c, cell-d] } }\n";
    let old = file(1, &["east"; 4], &with(pins));
    let new = old
        .replace("revision: 1", "revision: 2")
        .replace("'http://a:1'", "'http://a:9'")
        .replace("extra_characters: '_', ", "")
        .replace("globex: [cell-c, cell-d]", "globex: [cell-d, cell-c]");
    let change = Change::new(&old, &new);
    let list = change.files[0].with_file_name("tenants");
    std::fs::write(&list, "a_b\n").unwrap();
    let done = change.plan(&["--json", "--tenants", list.to_str().unwrap()]);
    assert_eq!(done.json()["tenants"], json!({ "known": 3, "moved": 1 }));
    let touched = |setting: &str| {
        let found = changes(&done).into_iter().find(|change| change.0 == setting);
        let (_, _, _, tenants, others) = found.unwrap_or_else(|| panic!("{setting}: {}", done.stdout));
        (tenants, others)
    };
    let on_a = touched("cells[cell-a].url");
    assert!((1..=2).contains(&on_a.0) && on_a.1, "acme, and a_b if its slot says so: {on_a:?}");
    assert_eq!(touched("placement.pins.globex"), (1, false));
    assert_eq!(touched("tenant.extra_characters"), (1, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_says_whom_it_has_seen_lately() {
    let cells = Scripted::cells(2).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let running = fleet(&addresses, "");
    let router = TestRouter::start(&running);
    for tenant in ["acme", "globex", "hooli"] {
        assert_eq!(router.ask(get("/", tenant)).await.status(), 200);
    }
    let new = format!("{running}ceiling: {{ max_in_flight: 9 }}\n");
    let change = Change::new(&running, &new);
    let admin = format!("http://{}/", router.admin);
    let plan = |flags: &[&str]| tokio::task::block_in_place(|| change.plan(flags));
    let done = plan(&["--json", "--admin", &admin]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let ceiling = changes(&done).into_iter().find(|change| change.0 == "ceiling.max_in_flight").unwrap();
    assert_eq!((ceiling.2, ceiling.3, ceiling.4), (json!("9"), 3, true));
    // Exit code 1 is the gate's: whoever cannot be asked is another's fault.
    let nobody = format!("http://{}", free_port());
    let done = plan(&["--admin", &nobody]);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""));
    assert!(done.stderr.contains("could not ask the router at http://127.0.0.1:"), "{}", done.stderr);
}
