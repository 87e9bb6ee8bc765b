//! What trials come to: means with their standard errors, and how far single trials were from each other.

use cofferdam_fleet::Fleet;
use cofferdam_model::ZoneId;
use cofferdam_placement::{Placement, Trial};
use serde::Serialize;

/// A share as trials have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    /// How far the mean is from the truth, typically; nothing where one trial cannot tell.
    pub(super) standard_error: Option<f64>,
    /// The least that a trial had.
    pub(super) low: f64,
    /// The most.
    pub(super) high: f64,
}

/// Shares that trials had, summed up by Welford's rule: no trial is kept.
#[derive(Debug, Clone, Copy)]
struct Sample {
    n: f64,
    mean: f64,
    squares: f64,
    low: f64,
    high: f64,
}

impl Sample {
    const NONE: Self = Self { n: 0.0, mean: 0.0, squares: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY };

    fn add(&mut self, share: f64) {
        self.n += 1.0;
        let off = share - self.mean;
        self.mean += off / self.n;
        self.squares += off * (share - self.mean);
        (self.low, self.high) = (self.low.min(share), self.high.max(share));
    }

    fn estimate(&self) -> Estimate {
        let error = (self.n > 1.0).then(|| (self.squares / (self.n - 1.0) / self.n).sqrt());
        Estimate { mean: self.mean, standard_error: error, low: self.low, high: self.high }
    }
}

/// What a cell, or all of a zone, has of the tenants.
#[derive(Debug, Clone, Copy)]
struct Load {
    homes: Sample,
    inclusion: Sample,
}

/// Estimates of everything that trials tell.
#[derive(Debug)]
pub(super) struct Estimates {
    n_trials: u64,
    overlap: Vec<Sample>,
    fully_covered: Sample,
    partly_covered: Sample,
    untouched: Sample,
    cells: Vec<Load>,
    /// Which of `zone_loads` each cell is of.
    zone_of: Vec<usize>,
    zones: Vec<ZoneId>,
    zone_loads: Vec<Load>,
}

impl Estimates {
    pub(super) fn new(fleet: &Fleet, placement: &Placement) -> Self {
        let mut zones: Vec<ZoneId> = fleet.cells.iter().map(|cell| cell.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        let zone_of = fleet.cells.iter().map(|cell| zones.partition_point(|zone| *zone < cell.zone));
        let load = Load { homes: Sample::NONE, inclusion: Sample::NONE };
        Self {
            n_trials: 0,
            overlap: vec![Sample::NONE; placement.shard_size() + 1],
            fully_covered: Sample::NONE,
            partly_covered: Sample::NONE,
            untouched: Sample::NONE,
            cells: vec![load; fleet.cells.len()],
            zone_of: zone_of.collect(),
            zone_loads: vec![load; zones.len()],
            zones,
        }
    }

    pub(super) fn add(&mut self, trial: &Trial) {
        self.n_trials += 1;
        add_shares(&mut self.overlap, &trial.overlap);
        let Trial { fully_covered, partly_covered, untouched, homes, inclusion, .. } = trial;
        let mut effects = [self.fully_covered, self.partly_covered, self.untouched];
        add_shares(&mut effects, &[*fully_covered, *partly_covered, *untouched]);
        [self.fully_covered, self.partly_covered, self.untouched] = effects;
        let tenants = homes.iter().sum::<u64>() as f64;
        let mut in_zones = vec![(0.0, 0.0); self.zones.len()];
        for (cell, load) in self.cells.iter_mut().enumerate() {
            let (homes, has) = (homes[cell] as f64 / tenants, inclusion[cell] as f64 / tenants);
            load.homes.add(homes);
            load.inclusion.add(has);
            let zone = &mut in_zones[self.zone_of[cell]];
            *zone = (zone.0 + homes, zone.1 + has);
        }
        for (load, (homes, has)) in self.zone_loads.iter_mut().zip(in_zones) {
            load.homes.add(homes);
            load.inclusion.add(has);
        }
    }

    pub(super) fn n_trials(&self) -> u64 {
        self.n_trials
    }

    /// How often two tenants share 0, 1, ... cells.
    pub(super) fn overlap(&self) -> impl Iterator<Item = Estimate> {
        self.overlap.iter().map(Sample::estimate)
    }

    /// How many of those who are not bad are covered fully, in part, and not at all.
    pub(super) fn effects(&self) -> [Estimate; 3] {
        [&self.fully_covered, &self.partly_covered, &self.untouched].map(Sample::estimate)
    }

    /// The share of tenants whose home a cell is, and of those who have it; by cell.
    pub(super) fn cells(&self) -> impl Iterator<Item = (Estimate, Estimate)> {
        self.cells.iter().map(Load::estimates)
    }

    /// The same by zone, of which a tenant may have several cells where there is only one.
    pub(super) fn zones(&self) -> impl Iterator<Item = (&ZoneId, (Estimate, Estimate))> {
        self.zones.iter().zip(self.zone_loads.iter().map(Load::estimates))
    }
}

impl Load {
    fn estimates(&self) -> (Estimate, Estimate) {
        (self.homes.estimate(), self.inclusion.estimate())
    }
}

/// Adds what each count is of all of them.
fn add_shares(samples: &mut [Sample], counts: &[u64]) {
    let all = counts.iter().sum::<u64>() as f64;
    for (sample, &count) in samples.iter_mut().zip(counts) {
        sample.add(count as f64 / all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_the_mean_its_standard_error_and_the_range() {
        let mut sample = Sample::NONE;
        sample.add(0.2);
        assert_eq!(sample.estimate().standard_error, None);
        [0.4, 0.6].into_iter().for_each(|share| sample.add(share));
        let Estimate { mean, standard_error, low, high } = sample.estimate();
        assert!((mean - 0.4).abs() < 1e-12 && (low, high) == (0.2, 0.6));
        // The deviation of single trials is 0.2, and there are three.
        assert!((standard_error.unwrap() - 0.2 / 3.0_f64.sqrt()).abs() < 1e-12);
    }
}
