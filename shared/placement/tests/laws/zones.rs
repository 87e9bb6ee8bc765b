//! Zones are the largest compartments: a shard has at most one cell in each.

use std::collections::BTreeSet;

use cofferdam_model::{CellId, ZoneId};

use crate::counting::{SLOTS, assert_share, homes, inclusion, sets, shards};
use crate::fleets::{build, cell_id, equal, zoned};

#[test]
fn three_zones_of_three_make_27_pairs_with_the_exact_overlaps() {
    let placement = build(&zoned(&[3, 3, 3]));
    assert!(placement.zone_separated());
    let counts = sets(&placement);
    assert_eq!(counts.len(), 27);
    let mut overlap = [0.0; 3];
    for (a, &count_a) in &counts {
        for (b, &count_b) in &counts {
            let shared = a.iter().filter(|cell| b.contains(cell)).count();
            overlap[shared] += f64::from(count_a) / SLOTS * f64::from(count_b) / SLOTS;
        }
    }
    // Every pair shares one cell with as many others, so an unevenness `d` of the counts enters as `d^2` only: its
    // expected size is 27/65536, spread by an eigenvalue of at most 10 over 27.
    for (got, exact) in overlap.into_iter().zip([16.0 / 27.0, 10.0 / 27.0, 1.0 / 27.0]) {
        assert!((got - exact).abs() < 5e-4, "{got} beside {exact}");
    }
}

// P25
#[test]
fn losing_a_zone_takes_at_most_one_cell_of_anybody() {
    for (sizes, shard_size) in [(&[3, 3, 3][..], 2), (&[3, 3, 3], 3), (&[5, 2, 4, 1], 3), (&[8, 1], 2)] {
        let mut spec = zoned(sizes);
        spec.shard_size = shard_size;
        let placement = build(&spec);
        let zone_of = |id: &CellId| &spec.cells.iter().find(|cell| cell.id == *id).unwrap().zone;
        for shard in sets(&placement).keys() {
            let zones: BTreeSet<_> = shard.iter().map(|id| zone_of(id)).collect();
            assert_eq!(zones.len(), shard_size, "{shard:?}");
        }
    }
}

#[test]
fn home_follows_weight_over_all_zones() {
    let placement = build(&zoned(&[5, 1, 3]));
    for cell in placement.cells() {
        assert_share(homes(&placement, cell), 1.0 / 9.0);
    }
}

#[test]
fn lone_cell_of_a_second_zone_is_in_every_pair() {
    let placement = build(&zoned(&[8, 1]));
    let lone = cell_id("cell-i");
    assert_eq!(inclusion(&placement, &lone), 65_536);
    assert_share(homes(&placement, &lone), 1.0 / 9.0);
    for cell in placement.cells().iter().filter(|&cell| *cell != lone) {
        assert_share(inclusion(&placement, cell), 1.0 / 8.0);
    }
}

#[test]
fn one_zone_gives_the_next_best_cell_and_says_so() {
    let placement = build(&equal(3));
    assert!(!placement.zone_separated());
    assert!(shards(&placement).all(|shard| shard[0] != shard[1]));
}

#[test]
fn zone_names_decide_nothing() {
    let spec = zoned(&[3, 3, 3]);
    let mut renamed = spec.clone();
    for cell in &mut renamed.cells {
        let name = if cell.zone.as_str() == "zone-0" { "zzz" } else { cell.zone.as_str() };
        cell.zone = ZoneId::parse(name).unwrap();
    }
    assert_eq!(build(&spec).digest(), build(&renamed).digest());
}
