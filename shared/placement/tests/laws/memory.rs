//! What tables take in memory: 4 bytes for each cell of each slot's shard at most, and what a release takes beside that.

use cofferdam_model::CellState;
use cofferdam_placement::{Placement, Release, Slots, Spec};

use crate::fleets::{build, equal, tenant, zoned};

/// The most that tables may take.
fn most(placement: &Placement, shard_size: usize) -> usize {
    4 * shard_size * placement.slots().count() as usize
}

#[test]
fn a_table_takes_half_of_what_it_may_and_with_a_cell_that_drains_no_more_than_all() {
    for shard_size in [1, 2, 3, 5] {
        let mut spec = Spec { shard_size, ..equal(8) };
        let placement = build(&spec);
        assert_eq!(placement.table_bytes(), most(&placement, shard_size) / 2);
        spec.cells[3].state = CellState::Draining;
        let drains = build(&spec);
        assert_eq!(drains.table_bytes(), most(&drains, shard_size));
        // One that goes on takes what it has.
        assert_eq!(Placement::build_after(&spec, &placement).unwrap().table_bytes(), drains.table_bytes());
    }
    let large = build(&Spec { slots: Slots::Pow20, ..equal(3) });
    assert_eq!(large.table_bytes(), most(&large, 2) / 2);
}

#[test]
fn the_largest_shard_is_what_counts_and_states_and_tenants_add_nothing() {
    let mut spec = equal(8);
    spec.sizes.insert(tenant("acme"), 4);
    assert_eq!(build(&spec).table_bytes(), most(&build(&spec), 4) / 2);
    let mut spec = equal(8);
    for (at, state) in [(5, CellState::Dedicated), (6, CellState::Quarantine), (7, CellState::Disabled)] {
        spec.cells[at].state = state;
    }
    spec.pins.insert(tenant("acme"), vec![spec.cells[5].id.clone(), spec.cells[0].id.clone()]);
    assert_eq!(build(&spec).table_bytes(), most(&build(&spec), 2) / 2);
    // Where the cells that drain are what makes several zones, the table before has the narrower shard of one.
    let mut spec = zoned(&[4, 2]);
    spec.cells[4].state = CellState::Draining;
    assert!(build(&spec).table_bytes() <= most(&build(&spec), 2));
}

#[test]
fn a_release_takes_twelve_bytes_for_each_slot_that_changes_and_one_cell_more_stays_within_the_bound() {
    let (old, new) = (build(&equal(8)), build(&equal(9)));
    let release = Release::new(&old, &new).unwrap();
    assert_eq!(release.bytes(), 12 * release.n_slots() as usize);
    assert!(new.table_bytes() + release.bytes() <= most(&new, 2));
    let three = |n| build(&Spec { shard_size: 3, ..equal(n) });
    let release = Release::new(&three(8), &three(9)).unwrap();
    assert_eq!(release.bytes(), 14 * release.n_slots() as usize);
}
