//! `cofferdam pairs` as a process: what it writes is pasted, taken, and does what it says; and it says when none are left.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::processes::{EXE, run};
use crate::support::routers::TestRouter;

const CELLS: &str = "fleet: f\ncells:\n  - { id: a, zone: one, url: 'http://a:1' }\n  - { id: 1e3, zone: one, url: 'http://a:2' }\n  \
                     - { id: c, zone: two, url: 'http://a:3' }\n  - { id: d, zone: two, url: 'http://a:4' }\n";

struct Folder(TempDir);

impl Folder {
    fn new(fleet: &str, list: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("fleet.yaml"), fleet).unwrap();
        std::fs::write(folder.path().join("list"), list).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn pairs(&self, flags: &[&str]) -> Output {
        let (fleet, list) = (self.file("fleet.yaml"), self.file("list"));
        run(&[&["pairs", "--fleet", &fleet, "--tenants", &list], flags].concat())
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Where a fleet file has these tenants, as sets of cells, and why.
fn places(fleet: &str, tenants: &[&str]) -> Vec<(BTreeSet<String>, String)> {
    let folder = Folder::new(fleet, "");
    let file = folder.file("fleet.yaml");
    let output = run(&[&["place", "--fleet", &file, "--output", "json"], tenants].concat());
    assert!(output.status.success(), "{}", text(output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |row: &Value| {
        (serde_json::from_value(row["shard"].clone()).unwrap(), row["reason"].as_str().unwrap().to_owned())
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn what_it_writes_is_taken_by_the_fleet_file_and_sets_all_apart() {
    // Two zones of two cells have four pairs; names that YAML would take for something else are names all the same.
    let tenants = ["acme", "no", "7", "1e3"];
    let folder = Folder::new(CELLS, "acme # the largest\nno\n7\n\n1e3\n");
    let output = folder.pairs(&[]);
    assert_eq!((output.status.code(), text(output.stderr)), (Some(0), String::new()));
    let fragment = text(output.stdout);
    assert!(fragment.starts_with("# Fleet f at revision 1: of 4 tenants "), "{fragment}");
    assert_eq!(fragment, text(folder.pairs(&[]).stdout), "the same again");
    let pinned = places(&format!("{CELLS}{fragment}"), &tenants);
    assert!(pinned.iter().all(|(_, reason)| reason == "pin"), "{pinned:?}");
    let sets: BTreeSet<_> = pinned.iter().map(|(cells, _)| cells).collect();
    assert_eq!(sets.len(), 4, "{pinned:?}");
    for cells in sets {
        let in_zone_one = cells.iter().filter(|cell| ["a", "1e3"].contains(&cell.as_str())).count();
        assert_eq!((cells.len(), in_zone_one), (2, 1), "one cell in each zone");
    }
    // What it says of each is so, and who keeps its cells has no remark.
    let before = places(CELLS, &tenants);
    let json: Value = serde_json::from_slice(&folder.pairs(&["--json"]).stdout).unwrap();
    for (at, ((cells, _), (had, _))) in pinned.iter().zip(&before).enumerate() {
        assert_eq!(json["pins"][at]["tenant"], tenants[at]);
        assert_eq!(json["pins"][at]["gained"], cells.difference(had).count());
        let line =
            fragment.lines().find(|line| line.starts_with(&format!("    \"{}\"", tenants[at]))).unwrap();
        assert_eq!(line.contains("# had "), cells != had, "{line}");
    }
}

#[test]
fn pins_are_spent_and_when_none_are_left_it_says_so() {
    let pins = "placement: { pins: { big: [a, c], huge: [c, a], vast: [a, d] } }\n";
    let folder = Folder::new(&format!("{CELLS}{pins}"), "acme\nbig\nglobex\n");
    let output = folder.pairs(&[]);
    let (fragment, said) = (text(output.stdout), text(output.stderr));
    assert!(
        fragment.contains("# big stays where it is, by pin.") && !fragment.contains("\"big\""),
        "{fragment}"
    );
    assert_eq!(said, "cofferdam: big is pinned to the same cells as huge, and stays so\n");
    for pair in [["\"a\"", "\"c\""], ["\"a\"", "\"d\""]] {
        let spent = fragment
            .lines()
            .any(|line| pair.iter().all(|cell| line.split('#').next().unwrap().contains(cell)));
        assert!(!spent, "{fragment}");
    }
    std::fs::write(folder.file("list"), "acme\nglobex\ninitech\n").unwrap();
    let output = folder.pairs(&[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = "cofferdam: 3 tenants want 2 cells each that are no other's, and 2 of 4 such sets are left: pins have spent 2\n";
    assert_eq!(text(output.stderr), said);
}

#[test]
fn a_list_comes_from_standard_input_too_and_what_is_no_tenant_is_bad_input() {
    let folder = Folder::new(CELLS, "acme\nBad\n");
    let mut command = Command::new(EXE);
    command.args(["pairs", "--fleet", &folder.file("fleet.yaml"), "--tenants", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"acme\n").unwrap();
    assert!(text(child.wait_with_output().unwrap().stdout).contains("\"acme\": ["));
    let output = folder.pairs(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(output.stderr).contains("list: line 2: tenant id has 'B' at 0"));
    std::fs::remove_file(folder.file("list")).unwrap();
    assert_eq!(folder.pairs(&[]).status.code(), Some(2));
}

#[tokio::test]
async fn pins_of_operators_are_spent_where_a_router_is_asked_and_who_has_one_stays() {
    // Two zones of two cells have four pairs.
    let file = format!("{CELLS}limits: {{ routers: 1 }}\n");
    let folder = Folder::new(&file, "acme\nbig\nglobex\n");
    let router = TestRouter::start(&file);
    for (tenant, to) in [("vast", r#"["a", "d"]"#), ("big", r#"["1e3", "c"]"#)] {
        let body = format!(r#"{{"to": {to}, "for": "1h", "reason": "a test", "author": "ops"}}"#);
        assert_eq!(router.tell("PUT", &format!("/tenants/{tenant}/pin"), &body).await.status(), 200);
    }
    let admin = format!("http://{}", router.admin);
    let pairs = async |folder: &Folder| {
        let (fleet, list, admin) = (folder.file("fleet.yaml"), folder.file("list"), admin.clone());
        let run = move || run(&["pairs", "--fleet", &fleet, "--tenants", &list, "--json", "--admin", &admin]);
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let output = pairs(&folder).await;
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["set_apart"], serde_json::json!(["big"]));
    let pin = |pin: &Value| -> BTreeSet<String> { serde_json::from_value(pin["cells"].clone()).unwrap() };
    let given: BTreeSet<_> = json["pins"].as_array().unwrap().iter().map(pin).collect();
    let left = [["a", "c"], ["1e3", "d"]].map(|pair| pair.map(str::to_owned).into_iter().collect());
    assert_eq!(given, BTreeSet::from(left));
    std::fs::write(folder.file("list"), "acme\nglobex\ninitech\n").unwrap();
    let output = pairs(&folder).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).ends_with("2 of 4 such sets are left: pins have spent 2\n"));
    // Without a router nobody knows of them.
    assert!(folder.pairs(&[]).status.success());
    std::fs::write(folder.file("fleet.yaml"), file.replace("fleet: f", "fleet: g")).unwrap();
    let output = pairs(&folder).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).contains("is of fleet f, and the file of g"));
}
