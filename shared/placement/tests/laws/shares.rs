//! How slots fall on cells: uniformly, by weight, and on the survivors of a loss.

use cofferdam_model::CellId;

use crate::counting::{SLOTS, assert_share, homes, inclusion, sets, shards};
use crate::fleets::{build, cell, cell_id, equal, name, pairs_of, tenant, weighted};

#[test]
fn pairs_of_eight_equal_cells_are_uniform() {
    for seed in [0, 1, 2, 0x0123_4567_89ab_cdef] {
        let mut spec = equal(8);
        spec.seed = seed;
        let placement = build(&spec);
        let counts = sets(&placement);
        assert_eq!(counts.len(), 28, "some pair never appears");
        let expected = SLOTS / 28.0;
        let chi_squared: f64 = counts.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // The 0.999 quantile of 27 degrees of freedom.
        assert!(chi_squared < 55.5, "chi-squared {chi_squared} with seed {seed}");
    }
}

#[test]
fn primary_share_is_the_share_of_weight_and_pairs_follow_the_formula() {
    for weights in [&[2, 1, 1, 1][..], &[5, 1, 3, 2, 1], &[20, 1, 1], &[1; 8]] {
        let placement = build(&weighted(weights));
        let w = |i: usize| f64::from(weights[i]);
        let total: f64 = (0..weights.len()).map(w).sum();
        let counts = sets(&placement);
        for i in 0..weights.len() {
            assert_share(homes(&placement, &cell_id(&name(i))), w(i) / total);
            for j in i + 1..weights.len() {
                let p = w(i) * w(j) / total * (1.0 / (total - w(i)) + 1.0 / (total - w(j)));
                let pair = [&cell_id(&name(i)), &cell_id(&name(j))];
                assert_share(counts.get(&pair[..]).map_or(0, |&n| n as usize), p);
            }
        }
    }
}

#[test]
fn inclusion_is_not_proportional_to_weight() {
    let placement = build(&weighted(&[2, 1, 1, 1]));
    assert_share(inclusion(&placement, &cell_id("cell-a")), 7.0 / 10.0);
    assert_share(inclusion(&placement, &cell_id("cell-b")), 13.0 / 30.0);
    assert_share(homes(&placement, &cell_id("cell-a")), 2.0 / 5.0);
    assert_share(homes(&placement, &cell_id("cell-b")), 1.0 / 5.0);
}

#[test]
fn lightest_cell_beside_the_heaviest_is_nearly_never_home() {
    // It has a millionth of the fleet's weight: 65,536 slots should show it as a home 0.07 times.
    let placement = build(&pairs_of(vec![cell("heavy", "zone-1", 1_000_000), cell("light", "zone-1", 1)]));
    assert!(homes(&placement, &cell_id("light")) <= 2);
    assert_eq!(inclusion(&placement, &cell_id("light")), 65_536);
}

#[test]
fn survivors_of_eight_cells_carry_eight_sevenths() {
    // A tenant's load is on its home, or on its second cell where the home is down.
    let placement = build(&equal(8));
    for down in placement.cells() {
        let serves = |shard: &Vec<&CellId>, cell| {
            if shard[0] == down { shard[1] == cell } else { shard[0] == cell }
        };
        for survivor in placement.cells().iter().filter(|&cell| cell != down) {
            let load = shards(&placement).filter(|shard| serves(shard, survivor)).count();
            assert_share(load, 8.0 / 7.0 / 8.0);
        }
    }
}

// P10: the loss of both cells of one tenant's pair.
#[test]
fn fixed_pairs_lose_a_quarter_and_shuffled_pairs_one_in_28() {
    let mut spec = equal(8);
    for i in 0..56 {
        let pair = i % 4 * 2;
        spec.pins
            .insert(tenant(&format!("tenant-{i}")), vec![cell_id(&name(pair)), cell_id(&name(pair + 1))]);
    }
    let placement = build(&spec);
    let bad = placement.place(&tenant("tenant-0")).shard;
    let lost = spec.pins.keys().filter(|id| placement.place(id).shard == bad).count();
    assert_eq!(lost, 56 / 4);
    for &lost in sets(&placement).values() {
        assert_share(lost as usize, 1.0 / 28.0);
    }
}
