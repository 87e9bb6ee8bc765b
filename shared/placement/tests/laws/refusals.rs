//! What makes no table is refused, with the value.

use cofferdam_placement::{Placement, Spec};

use crate::fleets::{cell, cell_id, equal, pairs_of, tenant, zoned};

fn refusal(spec: &Spec) -> String {
    Placement::build(spec).unwrap_err().to_string()
}

fn sized(mut spec: Spec, shard_size: usize) -> Spec {
    spec.shard_size = shard_size;
    spec
}

fn pinned(cells: &[&str]) -> Spec {
    let mut spec = equal(8);
    spec.pins.insert(tenant("acme"), cells.iter().map(|id| cell_id(id)).collect());
    spec
}

#[test]
fn fleet_without_cells_or_with_too_many_is_refused() {
    assert_eq!(refusal(&equal(0)), "fleet has no cells");
    let many = (0..65_536).map(|i| cell(&format!("cell-{i}"), "zone-1", 1000)).collect();
    assert_eq!(refusal(&pairs_of(many)), "65536 cells exceed 65535");
}

#[test]
fn two_cells_of_one_id_are_refused() {
    let mut spec = equal(8);
    spec.cells.push(cell("cell-c", "zone-2", 2000));
    assert_eq!(refusal(&spec), "cell cell-c is there twice");
}

#[test]
fn shard_that_the_fleet_cannot_fill_is_refused() {
    assert_eq!(refusal(&sized(equal(8), 0)), "shard size 0 places nobody");
    assert_eq!(refusal(&sized(equal(8), 9)), "shard size 9 exceeds 8 active cells");
    assert_eq!(refusal(&sized(zoned(&[3, 3, 3]), 4)), "shard size 4 exceeds 3 zones of active cells");
    assert!(Placement::build(&sized(equal(8), 8)).is_ok());
    assert!(Placement::build(&sized(zoned(&[3, 3, 3]), 3)).is_ok());
}

#[test]
fn shard_that_would_make_a_huge_table_is_refused() {
    let cells = (0..65).map(|i| cell(&format!("cell-{i}"), "zone-1", 1000)).collect();
    assert_eq!(refusal(&sized(pairs_of(cells), 65)), "shard size 65 exceeds 64");
}

#[test]
fn pin_that_is_no_shard_is_refused() {
    assert_eq!(refusal(&pinned(&["cell-a", "cell-z"])), "pin of acme names the unknown cell cell-z");
    assert_eq!(refusal(&pinned(&["cell-a"])), "pin of acme has 1 cells, and a shard 2");
    assert_eq!(refusal(&pinned(&["cell-a", "cell-b", "cell-c"])), "pin of acme has 3 cells, and a shard 2");
    assert_eq!(refusal(&pinned(&["cell-a", "cell-a"])), "pin of acme names the cell cell-a twice");
}
