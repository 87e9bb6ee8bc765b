//! Which changes the gate refuses, and that it lets pass what moves no more than it must.

use cofferdam_model::Weight;
use cofferdam_placement::gate::{Refusal, judge};
use cofferdam_placement::{CellChange, CellShare, Comparison, Slots, Spec};
use proptest::prelude::*;

use crate::fleets::{build, cell, cell_id, equal, weighted, zoned};

fn refused(old: &Spec, new: &Spec, max_inclusion: Option<u32>) -> Vec<Refusal> {
    judge(&Comparison::new(&build(old), &build(new)), max_inclusion)
}

fn said(old: &Spec, new: &Spec) -> String {
    refused(old, new, None).iter().map(Refusal::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn growing_shrinking_and_reweighting_one_by_one_pass() {
    for (old, new) in [
        (equal(8), equal(9)),
        (equal(9), equal(8)),
        (equal(8), equal(12)),
        (Spec { shard_size: 1, ..equal(1) }, Spec { shard_size: 1, ..equal(2) }),
        (equal(2), equal(3)),
        (equal(8), weighted(&[2, 1, 1, 1, 1, 1, 1, 1])),
        (weighted(&[2, 1, 1, 1]), weighted(&[20, 10, 10, 10])),
        (equal(8), Spec { shard_size: 3, ..equal(8) }),
        (zoned(&[3, 3, 3]), zoned(&[3, 3, 4])),
    ] {
        assert_eq!(said(&old, &new), "");
    }
}

#[test]
fn a_cell_for_another_in_one_step_moves_more_than_it_must() {
    let mut new = equal(8);
    new.cells[3] = cell("cell-z", "zone-1", 1000);
    let said = said(&equal(8), &new);
    assert!(said.contains("move and ") && said.contains("change cells in steps"), "{said}");
    // In two steps it passes.
    let mut both = equal(8);
    both.cells.push(cell("cell-z", "zone-1", 1000));
    assert_eq!(refused(&equal(8), &both, None), []);
    assert_eq!(refused(&both, &new, None), []);
}

#[test]
fn another_seed_and_another_number_of_slots_are_migrations() {
    let (seed, slots) = (Spec { seed: 1, ..equal(8) }, Spec { slots: Slots::Pow20, ..equal(8) });
    assert_eq!(refused(&equal(8), &seed, None), [Refusal::Seed]);
    let changed = Refusal::Slots { old: 65_536, new: 1_048_576 };
    assert_eq!(refused(&equal(8), &slots, None), [changed]);
    // A lone seed is refused where all shards are the same set, too: homes move.
    assert_eq!(refused(&equal(2), &Spec { seed: 1, ..equal(2) }, None), [Refusal::Seed]);
}

#[test]
fn lone_cell_of_a_second_zone_is_refused_however_it_comes() {
    let eight = zoned(&[8, 0]);
    for old in [&eight, &zoned(&[8, 8])] {
        let said = said(old, &zoned(&[8, 1]));
        assert!(
            said.contains("cell cell-i would be in 65536 of 65536 slots, and 29454 are the most"),
            "{said}"
        );
    }
    // One that has the weight of all the others is as large as what it carries.
    let mut heavy = zoned(&[8, 1]);
    heavy.cells[8].weight = Weight::from_thousandths(8000).unwrap();
    assert_eq!(refused(&eight, &heavy, None), []);
}

#[test]
fn what_was_accepted_before_does_not_stand_in_the_way() {
    let lopsided = zoned(&[8, 1]);
    assert_eq!(said(&lopsided, &lopsided), "");
    let mut more = lopsided.clone();
    more.cells.push(cell("cell-j", "zone-0", 1000));
    assert_eq!(said(&lopsided, &more), "");
}

#[test]
fn a_files_own_bound_replaces_the_one_by_weight_and_always_counts() {
    let (four, lopsided) = (equal(4), zoned(&[8, 1]));
    assert_eq!(refused(&zoned(&[8, 0]), &lopsided, Some(65_536)), []);
    assert_eq!(refused(&four, &four, Some(40_000)), []);
    let refused = refused(&four, &four, Some(26_214));
    assert_eq!(refused.len(), 4);
    assert!(refused[0].to_string().ends_with("and 26214 are the most by max_inclusion"), "{}", refused[0]);
}

#[test]
fn a_cell_of_nearly_no_weight_is_judged_with_a_margin() {
    // It has some 1.6 slots, and chance may well give it more than twice that.
    for i in 0..20 {
        let mut new = equal(8);
        new.cells.push(cell(&format!("canary-{i}"), "zone-1", 1));
        assert_eq!(said(&equal(8), &new), "");
    }
}

/// A change that could not be refused but for what it moves: `must` cells that slots have to gain, and `more` besides.
fn moving(slots: u32, must: u32, more: u32) -> Comparison {
    let share = |inclusion| Some(CellShare { inclusion, primary: 0, most_by_weight: slots });
    Comparison {
        slots,
        remapped: None,
        moved: 0,
        moved_twice: 0,
        primary_moved: 0,
        gained: u64::from(must) + u64::from(more),
        cells: vec![CellChange { id: cell_id("cell-a"), old: share(0), new: share(must) }],
        violations: Vec::new(),
    }
}

#[test]
fn what_moves_half_a_per_cent_of_slots_more_than_it_must_passes_and_one_slot_more_does_not() {
    for (slots, most) in [(65_536, 327), (1_048_576, 5242)] {
        assert_eq!(judge(&moving(slots, 7281, most), None), []);
        let refused = judge(&moving(slots, 7281, most + 1), None);
        let (gained, must) = (u64::from(7281 + most + 1), 7281);
        assert_eq!(refused, [Refusal::Movement { gained, must, slots }]);
    }
}

proptest! {
    #[test]
    fn a_change_is_refused_for_what_it_moves_exactly_where_that_is_beyond_the_margin(
        is_large: bool,
        must in 0..=65_536_u32,
        more in 0..12_000_u32,
    ) {
        let slots: u32 = if is_large { 1 << 20 } else { 1 << 16 };
        let is_beyond = u64::from(more) * 1000 > u64::from(slots) * 5;
        let refused = judge(&moving(slots, must, more), None);
        prop_assert_eq!(!refused.is_empty(), is_beyond);
    }
}
