//! The published tables, the closed formulae, and what must hold for any fleet.

use proptest::prelude::*;

use super::*;

/// Equal to the digits given.
fn assert_digits(got: f64, published: f64, digit: f64) {
    assert!((got - published).abs() <= digit / 2.0, "{got} beside {published}");
}

fn odds(cells: u64, shard_size: u64, bad: u64) -> BlastRadius {
    blast_radius(cells, shard_size, bad).unwrap()
}

/// The formula as it is published, for arguments where it does not lose its digits.
fn by_inclusion_exclusion(n: u64, k: u64, bad: i32) -> f64 {
    let all = choose(n, k).unwrap() as f64;
    let term = |j: u64| {
        let missed = (choose(n - j, k).unwrap() as f64 / all).powi(bad);
        choose(k, j).unwrap() as f64 * missed * if j.is_multiple_of(2) { 1.0 } else { -1.0 }
    };
    (0..=k).map(term).sum()
}

/// One more bad tenant covers no fewer shards, and one more cell no more, as far as rounding lets a number show it.
fn assert_monotone(n: u64, k: u64, bad: u64) {
    let (here, worse, better) = (odds(n, k, bad), odds(n, k, bad + 1), odds(n + 1, k, bad));
    // Ten products of matrices, each a sum of at most eight terms.
    let rounding = 10.0 * 9.0 * f64::EPSILON * here.fully_covered;
    assert!(worse.fully_covered >= here.fully_covered - rounding, "{worse:?} after {here:?}");
    assert!(better.fully_covered <= here.fully_covered + rounding, "{better:?} after {here:?}");
}

#[test]
fn overlap_of_two_tenants_is_the_published_table() {
    let table = [
        (8, 28, [0.535_714, 0.428_571, 0.035_714]),
        (20, 190, [0.805_263, 0.189_474, 0.005_263]),
        (100, 4950, [0.960_202, 0.039_596, 0.000_202]),
    ];
    for (n, pairs, published) in table {
        let got = odds(n, 2, 1);
        assert_eq!(got.pairs, pairs);
        assert_eq!(got.overlap.len(), 3);
        for (&got, published) in got.overlap.iter().zip(published) {
            assert_digits(got, published, 1e-6);
        }
    }
}

#[test]
fn overlap_of_pairs_is_the_closed_formula() {
    for n in 4..=100 {
        let got = odds(n, 2, 1).overlap;
        let pairs = (n * (n - 1) / 2) as f64;
        assert_eq!(got[0], ((n - 2) * (n - 3) / 2) as f64 / pairs);
        assert_eq!(got[1], (2 * (n - 2)) as f64 / pairs);
        assert_eq!(got[2], 1.0 / pairs);
    }
}

#[test]
fn coverage_of_a_pair_by_bad_tenants_is_the_published_row() {
    for (bad, published) in [(1, 0.035_714), (2, 0.161_990), (3, 0.309_995)] {
        assert_digits(odds(8, 2, bad).fully_covered, published, 1e-6);
    }
}

#[test]
fn coverage_of_a_pair_is_the_closed_formula() {
    for n in [3_u32, 8, 100] {
        for bad in 0..40 {
            let n = f64::from(n);
            let closed =
                1.0 - 2.0 * (1.0 - 2.0 / n).powi(bad) + ((n - 2.0) * (n - 3.0) / (n * (n - 1.0))).powi(bad);
            let got = odds(n as u64, 2, bad as u64).fully_covered;
            assert!((got - closed).abs() < 1e-12, "{got} beside {closed}");
        }
    }
}

#[test]
fn coverage_reproduces_the_table_of_kubernetes() {
    assert_digits(odds(64, 8, 1).fully_covered, 2.259_29e-10, 1e-15);
    assert_digits(odds(64, 8, 16).fully_covered, 0.359_351_1, 1e-7);
    assert_digits(odds(32, 12, 1).fully_covered, 4.428_838e-9, 1e-15);
    assert_digits(odds(32, 12, 4).fully_covered, 0.114_313_5, 1e-7);
    assert_digits(odds(32, 12, 16).fully_covered, 0.993_509_0, 1e-7);
}

#[test]
fn one_shared_pool_is_covered_by_its_first_bad_tenant() {
    let got = odds(8, 8, 1);
    assert_eq!(got.pairs, 1);
    assert_eq!(got.overlap, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(got.fully_covered, 1.0);
}

#[test]
fn nobody_is_covered_without_a_bad_tenant_and_all_are_by_very_many() {
    assert_eq!(odds(100, 3, 0).fully_covered, 0.0);
    let many = odds(100, 3, u64::MAX).fully_covered;
    assert!((0.999..=1.0).contains(&many), "{many}");
}

#[test]
fn impossible_arguments_are_refused_with_their_values() {
    let message = |n, k| blast_radius(n, k, 1).unwrap_err().to_string();
    assert_eq!(message(8, 0), "shard size 0 places nobody");
    assert_eq!(message(8, 9), "shard size 9 exceeds 8 cells");
    assert_eq!(message(0, 1), "shard size 1 exceeds 0 cells");
    assert_eq!(message(65, 65), "shard size 65 exceeds 64");
    assert_eq!(message(65_535, 64), "shards of 64 out of 65535 cells are too many to count");
}

proptest! {
    #[test]
    fn odds_are_probabilities_and_agree_with_inclusion_exclusion(
        (n, k) in (1..80_u64).prop_flat_map(|n| (Just(n), 1..=n.min(6))),
        bad in 0..60_i32,
    ) {
        let got = odds(n, k, bad as u64);
        prop_assert!((got.overlap.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!((0.0..=1.0).contains(&got.fully_covered));
        prop_assert!((got.fully_covered - by_inclusion_exclusion(n, k, bad)).abs() < 1e-12);
    }

    #[test]
    fn every_bad_tenant_makes_it_worse_and_every_cell_better(n in 8..60_u64, k in 1..8_u64, bad in 1..30_u64) {
        assert_monotone(n, k, bad);
    }
}

#[test]
fn odds_that_are_nearly_one_grow_but_for_what_is_rounded() {
    assert_monotone(8, 6, 28);
}
