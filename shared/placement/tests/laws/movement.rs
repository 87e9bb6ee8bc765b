//! What a change of the fleet moves: exactly what it must.

use cofferdam_model::{Digest, Weight};
use cofferdam_placement::{CellSpec, Placement, Slots, Spec};
use proptest::prelude::*;

use crate::counting::{Moved, assert_share, moved, shards};
use crate::fleets::{any_fleet, build, cell, cell_id, equal, name, weighted};

fn digest(spec: &Spec) -> Digest {
    build(spec).digest()
}

fn table(placement: &Placement) -> Vec<u8> {
    let slots = 0..placement.slots().count();
    slots
        .flat_map(|slot| placement.shard_of_slot(slot).cells())
        .flat_map(|cell| cell.0.to_le_bytes())
        .collect()
}

#[test]
fn ninth_equal_cell_changes_two_ninths_never_twice_and_one_ninth_of_the_homes() {
    let moved = moved(&build(&equal(8)), &build(&equal(9)));
    assert_share(moved.changed, 2.0 / 9.0);
    assert_share(moved.homes, 1.0 / 9.0);
    assert_eq!(moved.twice, 0);
}

#[test]
fn another_equal_cell_changes_two_in_n_plus_one() {
    for n in [2, 3, 5, 12] {
        let moved = moved(&build(&equal(n)), &build(&equal(n + 1)));
        let joined = 1.0 / (n + 1) as f64;
        assert_share(moved.changed, 2.0 * joined);
        assert_share(moved.homes, joined);
        assert_eq!(moved.twice, 0);
    }
}

#[test]
fn removed_cell_changes_the_pairs_that_had_it() {
    let (old, mut spec) = (build(&equal(8)), equal(8));
    spec.cells.remove(3);
    let new = build(&spec);
    let gone = cell_id(&name(3));
    assert_share(moved(&old, &new).changed, 2.0 / 8.0);
    for (before, after) in shards(&old).zip(shards(&new)) {
        assert!(before.contains(&&gone) || before == after);
    }
}

#[test]
fn adding_and_removing_a_cell_gives_the_old_table_byte_for_byte() {
    let old = build(&equal(8));
    let mut spec = equal(9);
    assert_ne!(digest(&spec), old.digest());
    spec.cells.pop();
    let new = build(&spec);
    assert_eq!(table(&new), table(&old));
    assert_eq!(new.digest(), old.digest());
}

#[test]
fn one_doubled_weight_of_ten_changes_eight_in_55_and_each_to_that_cell() {
    let (old, new) = (build(&equal(10)), build(&weighted(&[1, 1, 1, 1, 2, 1, 1, 1, 1, 1])));
    let heavier = cell_id(&name(4));
    let moved = moved(&old, &new);
    assert_share(moved.changed, 8.0 / 55.0);
    assert_eq!(moved.twice, 0);
    for (before, after) in shards(&old).zip(shards(&new)) {
        let gained: Vec<_> = after.iter().filter(|cell| !before.contains(cell)).collect();
        assert!(gained.is_empty() || gained == [&&heavier]);
    }
}

#[test]
fn more_slots_are_the_table_continued() {
    let mut spec = equal(3);
    let small = table(&build(&spec));
    spec.slots = Slots::Pow20;
    assert_eq!(table(&build(&spec))[..small.len()], small);
}

#[test]
fn another_seed_is_another_table() {
    let mut spec = equal(8);
    spec.seed = 1;
    let moved = moved(&build(&equal(8)), &build(&spec));
    assert_share(moved.changed, 27.0 / 28.0);
}

#[test]
fn a_cell_keeps_its_draws_under_another_index() {
    // A cell that sorts before all others shifts every index; by name, only its own slots change.
    let mut spec = equal(8);
    spec.cells.push(cell("a", "zone-1", 1000));
    let moved = moved(&build(&equal(8)), &build(&spec));
    assert_share(moved.changed, 2.0 / 9.0);
    assert_eq!(moved.twice, 0);
}

/// Where two tables differ, `cell` is what the new one has and the old one has not, in the place of one other; the
/// rest keeps its order.
fn only_gains(old: &Placement, new: &Placement, joined: &CellSpec) -> Result<(), TestCaseError> {
    for (before, after) in shards(old).zip(shards(new)) {
        if before == after {
            continue;
        }
        prop_assert!(after.contains(&&joined.id));
        let rest: Vec<_> = after.iter().filter(|cell| **cell != &joined.id).collect();
        let kept: Vec<_> = before.iter().filter(|cell| rest.contains(cell)).collect();
        prop_assert_eq!(kept, rest);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_joining_cell_takes_one_place_and_a_leaving_one_frees_one(
        spec in any_fleet(),
        weight in 1..5000_u32,
        zone in 0..3_usize,
    ) {
        let zone = if spec.cells.iter().any(|c| c.zone.as_str() == "zone-1") { zone } else { 0 };
        let joined = cell("cell-bb", &format!("zone-{zone}"), weight);
        let mut larger = spec.clone();
        larger.cells.push(joined.clone());
        let (old, new) = (build(&spec), build(&larger));
        only_gains(&old, &new, &joined)?;
        // What joins in one direction leaves in the other.
        prop_assert_eq!(moved(&old, &new).twice, 0);
        prop_assert_eq!(moved(&new, &old).twice, 0);
    }

    #[test]
    fn a_heavier_cell_only_gains(spec in any_fleet(), which: prop::sample::Index, more in 1..5000_u32) {
        let mut heavier = spec.clone();
        let grown = &mut heavier.cells[which.index(spec.cells.len())];
        grown.weight = Weight::from_thousandths(grown.weight.thousandths() + more).unwrap();
        let grown = grown.clone();
        only_gains(&build(&spec), &build(&heavier), &grown)?;
    }

    #[test]
    fn ten_times_every_weight_moves_nothing(spec in any_fleet()) {
        let mut heavier = spec.clone();
        for cell in &mut heavier.cells {
            cell.weight = Weight::from_thousandths(cell.weight.thousandths() * 10).unwrap();
        }
        prop_assert_eq!(digest(&heavier), digest(&spec));
    }

    #[test]
    fn order_of_the_cells_in_the_file_decides_nothing(
        (spec, cells) in any_fleet().prop_flat_map(|spec| {
            let shuffled = Just(spec.cells.clone()).prop_shuffle();
            (Just(spec), shuffled)
        }),
    ) {
        let shuffled = Spec { cells, ..spec.clone() };
        prop_assert_eq!(moved(&build(&spec), &build(&shuffled)), Moved::default());
        prop_assert_eq!(digest(&shuffled), digest(&spec));
    }

    #[test]
    fn a_larger_shard_begins_with_the_smaller_one(spec in any_fleet()) {
        let larger = Spec { shard_size: 3, ..spec.clone() };
        let (small, large) = (build(&spec), build(&larger));
        for (small, large) in shards(&small).zip(shards(&large)) {
            prop_assert!(large.starts_with(&small));
        }
    }
}
