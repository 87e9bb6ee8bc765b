//! What a comparison of two tables says: exactly what is there, and what the laws expect of a change.

use std::collections::BTreeMap;

use cofferdam_model::{CellId, Weight};
use cofferdam_placement::gate::judge;
use cofferdam_placement::{CellSpec, Comparison, Placement, Remapped, Sets, Slots, Spec, Violation};
use proptest::prelude::*;

use crate::counting::{assert_share, moved, sets, shards};
use crate::fleets::{any_fleet, build, cell, cell_id, equal, name, tenant, weighted, zoned};

fn compare(old: &Spec, new: &Spec) -> Comparison {
    Comparison::new(&build(old), &build(new))
}

#[test]
fn ninth_equal_cell_is_told_with_its_shares() {
    let told = compare(&equal(8), &equal(9));
    assert_eq!((told.slots, told.remapped, told.moved_twice), (65_536, None, 0));
    assert_share(told.moved as usize, 2.0 / 9.0);
    assert_share(told.primary_moved as usize, 1.0 / 9.0);
    let joined = &told.cells[8];
    assert_eq!((joined.id.clone(), joined.old), (cell_id("cell-i"), None));
    // Whatever moves, moves to the new cell, and all its slots are moved ones.
    let share = joined.new.unwrap();
    assert_eq!((share.inclusion, share.primary), (told.moved, told.primary_moved));
    assert_eq!((told.gained, told.must_gain()), (u64::from(told.moved), u64::from(told.moved)));
}

#[test]
fn one_equal_cell_more_or_less_moves_its_share() {
    for n in [3, 5, 12] {
        for (old, new) in [(n, n + 1), (n + 1, n)] {
            let told = compare(&equal(old), &equal(new));
            assert_share(told.moved as usize, 2.0 / (n + 1) as f64);
            assert_share(told.primary_moved as usize, 1.0 / (n + 1) as f64);
        }
    }
}

#[test]
fn removed_cell_is_told_as_gone_and_costs_what_it_had() {
    let mut new = equal(8);
    new.cells.remove(3);
    let told = compare(&equal(8), &new);
    let gone = told.cells.iter().find(|cell| cell.id == cell_id(&name(3))).unwrap();
    assert_eq!((gone.old.unwrap().inclusion, gone.new), (told.moved, None));
    assert_eq!(told.must_gain(), u64::from(told.moved));
}

#[test]
fn one_doubled_weight_of_ten_is_told_as_eight_in_55() {
    let told = compare(&equal(10), &weighted(&[1, 1, 1, 1, 2, 1, 1, 1, 1, 1]));
    assert_share(told.moved as usize, 8.0 / 55.0);
    assert_eq!((told.moved_twice, told.cells[4].gain()), (0, told.moved));
}

#[test]
fn larger_shard_moves_every_slot_once_and_a_smaller_one_gains_nothing() {
    let larger = Spec { shard_size: 3, ..equal(8) };
    let told = compare(&equal(8), &larger);
    assert_eq!((told.moved, told.moved_twice, told.primary_moved), (65_536, 0, 0));
    assert_eq!((told.gained, told.must_gain()), (65_536, 65_536));
    let back = compare(&larger, &equal(8));
    assert_eq!((back.moved, back.gained, back.must_gain(), back.primary_moved), (65_536, 0, 0, 0));
}

#[test]
fn more_slots_are_compared_by_the_bits_that_both_tables_read() {
    let finer = Spec { slots: Slots::Pow20, ..equal(8) };
    let (old, new) = (build(&equal(8)), build(&finer));
    let told = Comparison::new(&old, &new);
    assert_eq!(told.slots, 1 << 20);
    assert_eq!(told.remapped, Some(Remapped::Slots { old: 65_536, new: 1_048_576 }));
    let differs = |slot: &u32| {
        let mut pair = [old.shard_of_slot(slot >> 4), new.shard_of_slot(*slot)].map(|s| s.cells().to_vec());
        pair.iter_mut().for_each(|cells| cells.sort());
        pair[0] != pair[1]
    };
    assert_eq!(told.moved as usize, (0..1 << 20).filter(differs).count());
    assert_eq!(Comparison::new(&new, &old).moved, told.moved);
    let id = tenant("acme");
    assert_eq!(old.slot_of(&id), new.slot_of(&id) >> 4);
}

#[test]
fn another_seed_is_told() {
    let told = compare(&equal(8), &Spec { seed: 1, ..equal(8) });
    assert_eq!(told.remapped, Some(Remapped::Seed));
}

#[test]
fn odds_of_sharing_both_cells_are_those_of_the_formula() {
    for (spec, odds, n_pairs) in
        [(equal(8), 1.0 / 28.0, 28), (equal(9), 1.0 / 36.0, 36), (zoned(&[3, 3, 3]), 1.0 / 27.0, 27)]
    {
        let sets = Sets::of(&build(&spec));
        // An unevenness `d` of the counts enters as `d^2`: some 27/65536 of the odds.
        assert!((sets.share_all() - odds).abs() < 1e-4, "{} beside {odds}", sets.share_all());
        assert_eq!(sets.distinct, n_pairs);
        assert!(sets.fewest < sets.most);
    }
    // Two cells: everybody shares both.
    assert!((Sets::of(&build(&equal(2))).share_all() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn pin_within_a_zone_is_a_violation_and_one_zone_is_none() {
    let mut pinned = zoned(&[2, 2]);
    pinned.pins.insert(tenant("acme"), vec![cell_id("cell-b"), cell_id("cell-a")]);
    pinned.pins.insert(tenant("globex"), vec![cell_id("cell-a"), cell_id("cell-c")]);
    let told = compare(&zoned(&[2, 2]), &pinned);
    let said: Vec<String> = told.violations.iter().map(Violation::to_string).collect();
    assert_eq!(said, ["pin of acme: cell-b and cell-a are both in zone zone-0"]);
    assert_eq!(told.moved, 0);
    assert_eq!(compare(&equal(4), &equal(4)).violations, []);
    assert_eq!(compare(&zoned(&[2, 2]), &equal(4)).violations, [Violation::SeparationLost]);
    assert_eq!(compare(&equal(4), &zoned(&[2, 2])).violations, []);
}

/// A fleet, and what a cell more, a cell less, another weight or a wholly other fleet makes of it.
fn any_change() -> impl Strategy<Value = (Spec, Spec)> {
    (any_fleet(), any_fleet(), any::<prop::sample::Index>(), 1..5000_u32, 0..4_u8).prop_map(
        |(old, other, which, thousandths, kind)| {
            let mut new = old.clone();
            let at = which.index(new.cells.len());
            match kind {
                0 => {
                    let zone = new.cells[at].zone.clone();
                    new.cells.push(cell("cell-bb", zone.as_str(), thousandths));
                }
                // The first three cells hold the zones, and fill the shards.
                1 if at > 2 => drop(new.cells.remove(at)),
                2 => new.cells[at].weight = Weight::from_thousandths(thousandths).unwrap(),
                _ => new = Spec { seed: old.seed, slots: old.slots, ..other },
            }
            (old, new)
        },
    )
}

/// What every comparison owes, whatever was changed.
fn is_exact(told: &Comparison, old: &Placement, new: &Placement) -> Result<(), TestCaseError> {
    if old.shard_size() == new.shard_size() {
        let counted = moved(old, new);
        let told = [told.moved, told.moved_twice, told.primary_moved].map(|n| n as usize);
        prop_assert_eq!(told, [counted.changed, counted.twice, counted.homes]);
    }
    for (placement, is_new) in [(old, false), (new, true)] {
        let shares = told.cells.iter().map(|cell| (&cell.id, if is_new { cell.new } else { cell.old }));
        let there: Vec<_> = shares.filter_map(|(id, share)| Some((id, share?))).collect();
        prop_assert_eq!(
            there.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            placement.cells().iter().collect::<Vec<_>>()
        );
        let mut counted: BTreeMap<&CellId, (u32, u32)> = BTreeMap::new();
        for shard in shards(placement) {
            counted.entry(shard[0]).or_default().1 += 1;
            shard.iter().for_each(|id| counted.entry(id).or_default().0 += 1);
        }
        for (id, share) in &there {
            let (inclusion, homes) = counted.get(id).copied().unwrap_or_default();
            prop_assert_eq!((share.inclusion, share.primary), (inclusion, homes));
        }
        let total: usize = there.iter().map(|(_, share)| share.inclusion as usize).sum();
        prop_assert_eq!(total, 65_536 * placement.shard_size());
        prop_assert_eq!(there.iter().map(|(_, share)| share.primary).sum::<u32>(), 65_536);
    }
    // No table moves less than its inclusions changed.
    prop_assert!(told.must_gain() <= told.gained);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_comparison_counts_what_is_there((old, new) in any_change()) {
        let (old, new) = (build(&old), build(&new));
        is_exact(&Comparison::new(&old, &new), &old, &new)?;
        let counts = sets(&new);
        let sets = Sets::of(&new);
        prop_assert_eq!(sets.distinct as usize, counts.len());
        prop_assert_eq!(Some(&sets.most), counts.values().max());
        prop_assert_eq!(Some(&sets.fewest), counts.values().min());
        let odds: f64 = counts.values().map(|&n| (f64::from(n) / 65_536.0).powi(2)).sum();
        prop_assert!((sets.share_all() - odds).abs() < 1e-12);
    }

    #[test]
    fn one_cell_more_or_less_or_heavier_moves_what_it_must_and_passes_the_gate(
        spec in any_fleet(),
        which: prop::sample::Index,
        thousandths in 1..5000_u32,
    ) {
        let at = which.index(spec.cells.len());
        let (mut larger, mut reweighted) = (spec.clone(), spec.clone());
        larger.cells.push(CellSpec { id: cell_id("cell-bb"), ..spec.cells[at].clone() });
        reweighted.cells[at].weight = Weight::from_thousandths(thousandths).unwrap();
        let before = build(&spec);
        for after in [build(&larger), build(&reweighted)] {
            for (old, new) in [(&before, &after), (&after, &before)] {
                let told = Comparison::new(old, new);
                prop_assert_eq!(told.gained, told.must_gain());
                prop_assert_eq!((told.moved_twice, u64::from(told.moved)), (0, told.gained));
                prop_assert_eq!(judge(&told, Some(told.slots)), []);
            }
        }
    }

    #[test]
    fn nothing_changed_is_nothing_moved(spec in any_fleet()) {
        let told = compare(&spec, &spec);
        prop_assert_eq!((told.moved, told.primary_moved, told.gained, told.remapped), (0, 0, 0, None));
        prop_assert!(told.cells.iter().all(|cell| cell.old == cell.new));
    }
}
