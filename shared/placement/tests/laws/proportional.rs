//! Inclusion in proportion to weight, where it is asked for: shares, zones, what it refuses and what it moves.

use cofferdam_model::{CellId, Weight};
use cofferdam_placement::{Comparison, Inclusion, Placement, Slots, Spec};
use proptest::prelude::*;

use crate::counting::{SLOTS, assert_share, homes, inclusion, moved, shards};
use crate::fleets::{any_fleet, build, cell, cell_id, equal, name, tenant, weighted, zoned};

fn proportional(spec: Spec) -> Spec {
    Spec { inclusion: Inclusion::Proportional, shard_size: 2, ..spec }
}

fn refusal(spec: Spec) -> String {
    Placement::build(&proportional(spec)).unwrap_err().to_string()
}

#[test]
fn inclusion_and_homes_are_in_proportion_to_weight() {
    let placement = build(&proportional(weighted(&[2, 1, 1, 1])));
    assert_share(inclusion(&placement, &cell_id("cell-a")), 4.0 / 5.0);
    assert_share(inclusion(&placement, &cell_id("cell-b")), 2.0 / 5.0);
    for weights in [&[2, 1, 1, 1][..], &[5, 1, 3, 2, 1], &[1; 8], &[7, 6, 5, 4, 3, 2, 1], &[50, 50, 1, 1, 1]]
    {
        let placement = build(&proportional(weighted(weights)));
        let total: u32 = weights.iter().sum();
        for (i, &weight) in weights.iter().enumerate() {
            let p = f64::from(weight) / f64::from(total);
            assert_share(inclusion(&placement, &cell_id(&name(i))), 2.0 * p);
            assert_share(homes(&placement, &cell_id(&name(i))), p);
        }
    }
}

#[test]
fn zones_are_kept_apart_and_each_cell_has_its_share() {
    let mut spec = zoned(&[3, 1, 2]);
    for (cell, weight) in spec.cells.iter_mut().zip([1000, 2000, 500, 3000, 1500, 1000]) {
        cell.weight = Weight::from_thousandths(weight).unwrap();
    }
    let placement = build(&proportional(spec.clone()));
    for spec in &spec.cells {
        let p = f64::from(spec.weight.thousandths()) / 9000.0;
        assert_share(inclusion(&placement, &spec.id), 2.0 * p);
        assert_share(homes(&placement, &spec.id), p);
    }
    let zone = |id: &CellId| spec.cells.iter().find(|cell| cell.id == *id).unwrap().zone.clone();
    assert!(shards(&placement).all(|pair| zone(pair[0]) != zone(pair[1])));
}

#[test]
fn who_has_half_of_the_weight_is_in_every_pair_and_who_has_more_is_refused() {
    let placement = build(&proportional(weighted(&[3, 1, 2])));
    assert_eq!(inclusion(&placement, &cell_id("cell-a")), 65_536);
    assert_share(inclusion(&placement, &cell_id("cell-c")), 2.0 / 3.0);
    assert_share(homes(&placement, &cell_id("cell-a")), 0.5);
    let said = refusal(weighted(&[4, 1, 2]));
    assert_eq!(said, "cell cell-a has more than half of all weight: no pairs have it in proportion");
    let said = refusal(zoned(&[8, 1]));
    assert_eq!(said, "zone zone-0 has more than half of all weight: no pairs have it in proportion");
}

#[test]
fn it_is_for_pairs_alone() {
    let three = Spec { inclusion: Inclusion::Proportional, shard_size: 3, ..equal(8) };
    let said = "inclusion in proportion is for shards of two, and not of 3";
    assert_eq!(Placement::build(&three).unwrap_err().to_string(), said);
    let mut one = proportional(equal(8));
    one.sizes.insert(tenant("acme"), 1);
    assert!(Placement::build(&one).is_err());
}

#[test]
fn it_shows_in_the_digest() {
    // Two cells make one pair either way.
    let (usual, asked) = (build(&equal(2)), build(&proportional(equal(2))));
    assert_ne!(usual.digest(), asked.digest());
}

#[test]
fn equal_cells_move_what_they_must_and_no_more() {
    for n in [3, 8, 12] {
        for (old, new) in [(n, n + 1), (n + 1, n)] {
            let (old, new) = (build(&proportional(equal(old))), build(&proportional(equal(new))));
            let told = moved(&old, &new);
            assert_share(told.changed, 2.0 / (n + 1) as f64);
            assert_eq!(told.twice, 0);
        }
    }
}

/// What is moved beyond what must be, as a share of all slots: another cell's part of the weight changes how often each comes first.
fn beyond(old: &Spec, new: &Spec) -> f64 {
    let told = Comparison::new(&build(&proportional(old.clone())), &build(&proportional(new.clone())));
    (told.gained - told.must_gain()) as f64 / SLOTS
}

#[test]
fn unequal_cells_move_a_little_more_than_they_must() {
    let mut twenty: Vec<u32> = (0..20).map(|i| 2 + i % 3).collect();
    let before = weighted(&twenty);
    twenty.push(3);
    assert!(beyond(&before, &weighted(&twenty)) < 0.005);
    assert!(beyond(&weighted(&twenty), &before) < 0.005);
    // In a small fleet of unlike cells it is more than the gate's margin.
    let small = beyond(&weighted(&[2, 1, 1, 1]), &weighted(&[2, 1, 1, 1, 1]));
    assert!((0.005..0.1).contains(&small), "{small}");
}

/// Among unlike cells in zones both stages may go another way at once, and no bound is promised.
#[test]
fn no_pair_of_like_cells_changes_in_both_by_the_weight_of_one() {
    let ten = |first: u32| build(&proportional(weighted(&[&[first][..], &[10; 9]].concat())));
    let before = ten(10);
    for first in [1, 9, 11, 20, 45] {
        let after = ten(first);
        assert_eq!([moved(&before, &after).twice, moved(&after, &before).twice], [0, 0], "{first}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_decides_nothing_elsewhere_decides_nothing_here(spec in any_fleet()) {
        let Ok(placement) = Placement::build(&proportional(spec.clone())) else { return Ok(()) };
        let mut heavier = spec.clone();
        for cell in &mut heavier.cells {
            cell.weight = Weight::from_thousandths(cell.weight.thousandths() * 10).unwrap();
        }
        heavier.cells.reverse();
        prop_assert_eq!(build(&proportional(heavier)).digest(), placement.digest());
        // More slots are the table continued.
        let more = build(&Spec { slots: Slots::Pow20, ..proportional(spec) });
        for slot in 0..1000 {
            prop_assert_eq!(more.shard_of_slot(slot), placement.shard_of_slot(slot));
        }
    }

    #[test]
    fn pairs_are_two_cells(spec in any_fleet()) {
        let Ok(placement) = Placement::build(&proportional(spec)) else { return Ok(()) };
        prop_assert!(shards(&placement).all(|pair| pair.len() == 2 && pair[0] != pair[1]));
    }
}

#[test]
fn a_cell_that_joins_is_carried_by_no_old_table() {
    let (old, mut new) = (proportional(weighted(&[2, 1, 1, 1])), proportional(weighted(&[2, 1, 1, 1])));
    new.cells.push(cell("cell-e", "zone-1", 1000));
    let carried = Placement::build_after(&new, &build(&old)).unwrap();
    assert_eq!(carried.digest(), build(&new).digest());
    let usual = Spec { inclusion: Inclusion::Weight, ..new.clone() };
    assert_eq!(Placement::build_after(&usual, &carried).unwrap().digest(), build(&usual).digest());
}
