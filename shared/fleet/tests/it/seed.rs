//! A seed that lies in a file of its own, beside the fleet file.

use std::fs;
use std::path::Path;

use cofferdam_fleet::{Fleet, FleetError};

use crate::TWO_CELLS;

fn fleet_with_seed(dir: &Path, seed: &str) -> Result<u64, FleetError> {
    let path = dir.join("fleet.yaml");
    fs::write(dir.join("map.seed"), seed).unwrap();
    fs::write(&path, format!("{TWO_CELLS}placement: {{ seed_file: map.seed }}\n")).unwrap();
    Fleet::load(&path).map(|loaded| loaded.fleet.placement.seed)
}

#[test]
fn a_seed_file_is_looked_for_beside_the_fleet_file() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(fleet_with_seed(dir.path(), "18446744073709551615\n").unwrap(), u64::MAX);
}

#[test]
fn what_a_seed_file_holds_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let said = fleet_with_seed(dir.path(), "hunter2").unwrap_err().to_string();
    assert!(said.contains("fleet.yaml:5:25: placement.seed_file: seed file"), "{said}");
    assert!(said.ends_with("does not hold a seed from 0 to 18446744073709551615"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Fleet::load(Path::new("/nowhere/fleet.yaml")).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/fleet.yaml: "), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fleet.yaml");
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(Fleet::load(&path), Err(FleetError::Read { .. })));
}
