//! Odds that are counted over a table, beside what is written of equal fleets and beside all cases tried one by one; and
//! simulated tenants, who come out as the odds say.

use std::collections::BTreeSet;

use cofferdam_model::CellId;
use cofferdam_placement::blast::blast_radius;
use cofferdam_placement::{Odds, Placement, Simulation, Trial};
use proptest::prelude::*;

use crate::counting::{SLOTS, homes, inclusion, sets};
use crate::fleets::{any_fleet, build, equal, weighted, zoned};

fn odds(placement: &Placement, bad: u64) -> Odds {
    Odds::of(placement, bad).unwrap()
}

/// A table's own odds are those of the draw up to what 65,536 slots scatter.
#[track_caller]
fn assert_near(counted: f64, written: f64) {
    assert!((counted - written).abs() < 1e-3, "{counted} beside {written}");
}

#[test]
fn odds_of_equal_cells_are_the_formulaes() {
    let eight = build(&equal(8));
    for (bad, covered) in [(1, 0.035_714), (2, 0.161_990), (3, 0.309_995)] {
        let (counted, formula) = (odds(&eight, bad), blast_radius(8, 2, bad).unwrap());
        assert_near(counted.fully_covered, covered);
        let touched = 1.0 - formula.overlap[0].powi(bad as i32);
        assert_near(counted.fully_covered + counted.partly_covered, touched);
        for (counted, formula) in counted.overlap.iter().zip(formula.overlap) {
            assert_near(*counted, formula);
        }
    }
}

#[test]
fn odds_of_zones_and_weights_are_their_own() {
    let zones = odds(&build(&zoned(&[3, 3, 3])), 1).overlap;
    for (counted, written) in zones.into_iter().zip([16.0 / 27.0, 10.0 / 27.0, 1.0 / 27.0]) {
        assert_near(counted, written);
    }
    // The three pairs of the heavy cell have 7/30 each, the others 3/30.
    let overlap = odds(&build(&weighted(&[2, 1, 1, 1])), 1).overlap;
    assert_near(overlap[2], 3.0 * (49.0 + 9.0) / 900.0);
}

#[test]
fn a_shard_with_too_many_subsets_has_no_odds() {
    let mut spec = equal(8);
    spec.shard_size = 7;
    assert_eq!(Odds::of(&build(&spec), 1), None);
}

/// Each set of a table and its share of the slots.
fn shares(placement: &Placement) -> Vec<(BTreeSet<&CellId>, f64)> {
    sets(placement).into_iter().map(|(set, n)| (set.into_iter().collect(), f64::from(n) / SLOTS)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn odds_are_what_trying_every_case_says(spec in any_fleet()) {
        let placement = build(&spec);
        let shares = shares(&placement);
        let mut overlap = vec![0.0; spec.shard_size + 1];
        let (mut covered, mut touched) = (0.0, 0.0);
        for (victim, p) in &shares {
            for (first, q) in &shares {
                overlap[victim.intersection(first).count()] += p * q;
                for (second, r) in &shares {
                    let hit = victim.iter().filter(|cell| first.contains(*cell) || second.contains(*cell));
                    match hit.count() {
                        0 => {}
                        all if all == victim.len() => covered += p * q * r,
                        _ => touched += p * q * r,
                    }
                }
            }
        }
        let odds = odds(&placement, 2);
        for (counted, tried) in odds.overlap.iter().zip(overlap) {
            prop_assert!((counted - tried).abs() < 1e-9);
        }
        prop_assert!((odds.fully_covered - covered).abs() < 1e-9);
        prop_assert!((odds.partly_covered - touched).abs() < 1e-9);
    }

    #[test]
    fn a_trial_counts_every_tenant_once_and_again_the_same(
        spec in any_fleet(),
        tenants in 0..200_u64,
        bad in 0..8_u64,
        seed: u64,
        number: u64,
    ) {
        let (placement, simulation) = (build(&spec), Simulation { tenants, bad, seed });
        let trial = simulation.trial(&placement, number);
        prop_assert_eq!(&trial, &simulation.trial(&placement, number));
        let Trial { overlap, fully_covered, partly_covered, untouched, homes, inclusion } = trial;
        prop_assert_eq!(overlap.iter().sum::<u64>(), tenants / 2);
        prop_assert_eq!(fully_covered + partly_covered + untouched, tenants.saturating_sub(bad));
        prop_assert_eq!(homes.iter().sum::<u64>(), tenants);
        prop_assert_eq!(inclusion.iter().sum::<u64>(), tenants * spec.shard_size as u64);
    }
}

#[test]
fn whoever_watches_a_trial_hears_of_every_tenant_once_and_of_a_large_one_before_its_end() {
    let placement = build(&equal(8));
    for (tenants, least) in [(2, 1), (1000, 1), (1_000_000, 5)] {
        let simulation = Simulation { tenants, bad: 1, seed: 6 };
        let mut heard = Vec::new();
        let trial = simulation.watched_trial(&placement, 3, |n_more| heard.push(n_more));
        assert_eq!(heard.iter().sum::<u64>(), tenants);
        assert!(heard.len() >= least && heard.len() <= 100, "{heard:?}");
        assert_eq!(trial, simulation.trial(&placement, 3));
    }
}

/// What share of the trials' tenants it is, on average, and the standard error of that.
fn estimate(trials: &[Trial], share: impl Fn(&Trial) -> f64) -> (f64, f64) {
    let (shares, n): (Vec<f64>, _) = (trials.iter().map(share).collect(), trials.len() as f64);
    let mean = shares.iter().sum::<f64>() / n;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// Four standard errors: a right simulation is further off once in 16,000, and with this seed it is not.
#[track_caller]
fn assert_estimates((mean, error): (f64, f64), exact: f64) {
    assert!((mean - exact).abs() < 4.0 * error, "{mean} +- {error} beside {exact}");
}

#[test]
fn simulated_tenants_come_out_as_the_odds_say() {
    for spec in [equal(8), zoned(&[3, 2, 4]), weighted(&[1, 2, 3, 4, 5])] {
        let placement = build(&spec);
        for bad in [1, 3] {
            let simulation = Simulation { tenants: 200, bad, seed: 6 };
            let trials: Vec<_> = (0..400).map(|number| simulation.trial(&placement, number)).collect();
            let (odds, others) = (odds(&placement, bad), (200 - bad) as f64);
            for (shared, &exact) in odds.overlap.iter().enumerate() {
                assert_estimates(estimate(&trials, |trial| trial.overlap[shared] as f64 / 100.0), exact);
            }
            let covered = estimate(&trials, |trial| trial.fully_covered as f64 / others);
            assert_estimates(covered, odds.fully_covered);
            let partly = estimate(&trials, |trial| trial.partly_covered as f64 / others);
            assert_estimates(partly, odds.partly_covered);
            for (at, cell) in placement.cells().iter().enumerate() {
                let home = estimate(&trials, |trial| trial.homes[at] as f64 / 200.0);
                assert_estimates(home, homes(&placement, cell) as f64 / SLOTS);
                let has = estimate(&trials, |trial| trial.inclusion[at] as f64 / 200.0);
                assert_estimates(has, inclusion(&placement, cell) as f64 / SLOTS);
            }
        }
    }
}
