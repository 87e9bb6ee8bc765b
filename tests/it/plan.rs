//! `cofferdam plan` as a process: its JSON, its table, its exit codes, and what it says of a change that is refused.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::files::cell_id;
use crate::support::processes::run;

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
    let words = ["cells", "moved", "moved_twice", "primary_moved", "refused", "share_both", "violations"];
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
