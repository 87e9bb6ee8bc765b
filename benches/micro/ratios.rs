//! Ratios: ours and the reference in turns, round by round, so that whatever else the machine does meets both. A
//! contest's ratio is the median over its rounds, and the spread beside it is from the tenth to the ninetieth
//! percentile.

use std::time::{Duration, Instant};

use crate::contest::{Contest, Runner};

/// How long a side runs in one round, if one run is not longer: short beside a turn of the scheduler's, so that on a
/// busy machine most rounds are left alone, and two threads that started together run together.
const ROUND: Duration = Duration::from_micros(300);
/// How long a contest goes on, and for how many rounds at least.
const CONTEST: Duration = Duration::from_secs(1);
const MIN_ROUNDS: usize = 21;

/// A contest's outcome: times are of one run, in nanoseconds; all are sorted.
struct Rounds {
    ours: Vec<f64>,
    reference: Vec<f64>,
    ratios: Vec<f64>,
}

/// Holds every contest, and prints its ratio beside its target.
pub(crate) fn print(contests: &mut [Contest]) {
    println!("\nRatios: medians of paired rounds, with the 10th and the 90th percentile\n");
    for contest in contests {
        let rounds = hold(contest);
        let verdict = match contest.target {
            None => String::new(),
            Some(target) if median(&rounds.ratios) <= target => format!(" (target {target:.1})"),
            Some(target) => format!(" (target {target:.1}, MISSED)"),
        };
        println!(
            "{} / {}: {:.2} [{:.2} {:.2}]{verdict}, {} / {}",
            contest.name,
            contest.reference_name,
            median(&rounds.ratios),
            percentile(&rounds.ratios, 10),
            percentile(&rounds.ratios, 90),
            time(median(&rounds.ours)),
            time(median(&rounds.reference)),
        );
    }
}

fn hold(contest: &mut Contest) -> Rounds {
    let (n_ours, n_reference) = (runs_in_a_round(&mut contest.ours), runs_in_a_round(&mut contest.reference));
    let mut rounds = Rounds { ours: Vec::new(), reference: Vec::new(), ratios: Vec::new() };
    let start = Instant::now();
    while rounds.ratios.len() < MIN_ROUNDS || start.elapsed() < CONTEST {
        // Whoever goes second may find other caches, or another frequency: they take turns at that too.
        let ours_first = rounds.ratios.len().is_multiple_of(2);
        let early = ours_first.then(|| time_of_one(&mut contest.ours, n_ours));
        let reference = time_of_one(&mut contest.reference, n_reference);
        let ours = early.unwrap_or_else(|| time_of_one(&mut contest.ours, n_ours));
        rounds.ours.push(ours);
        rounds.reference.push(reference);
        rounds.ratios.push(ours / reference);
    }
    for times in [&mut rounds.ours, &mut rounds.reference, &mut rounds.ratios] {
        times.sort_by(f64::total_cmp);
    }
    rounds
}

/// How many runs take a round's time, at least one.
fn runs_in_a_round(runner: &mut Runner) -> u64 {
    // One of three that is short will do: an interruption does not pass for a long run.
    let mut is_short = |n_runs| (0..3).any(|_| runner(n_runs) < ROUND);
    let mut n_runs = 1;
    while is_short(n_runs) {
        n_runs *= 2;
    }
    n_runs
}

fn time_of_one(runner: &mut Runner, n_runs: u64) -> f64 {
    runner(n_runs).as_nanos() as f64 / n_runs as f64
}

fn time(ns: f64) -> String {
    if ns < 10_000.0 { format!("{ns:.1} ns") } else { format!("{:.2} ms", ns / 1e6) }
}

fn median(sorted: &[f64]) -> f64 {
    percentile(sorted, 50)
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}
