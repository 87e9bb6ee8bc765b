//! What the hot steps of a request cost, each beside a reference that readers know: first by criterion, one after the
//! other, then as ratios of paired rounds, which are held against the targets. `make bench` runs it.
//!
//! It knows no HTTP: what a whole request costs is measured elsewhere.

#![expect(clippy::print_stdout, reason = "a bench's output is its product")]

mod admission;
mod compartments;
mod contest;
mod lookup;
mod pool;
mod processor;
mod queue;
mod ratios;
mod semaphore;
mod simulated;
mod table;
mod tenants;
mod top;

use std::time::Duration;

use criterion::Criterion;

use crate::contest::{Contest, Runner};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut contests = lookup::contests();
    contests.extend(table::contests());
    contests.extend(admission::contests());
    contests.extend(compartments::contests());
    contests.extend(pool::contests());
    contests.extend(queue::contests());
    contests.extend(top::contests());

    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    contests.iter_mut().for_each(|contest| time_both(&mut criterion, contest));
    criterion.final_summary();

    // `cargo test --benches` only tries whether everything runs.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios::print(&mut contests);
        table::print_processor_times();
        simulated::print_processor_times();
        println!("a waiter, its tenant and its future: {} bytes (target 1024)", queue::bytes_of_a_waiter());
    }
}

fn time_both(criterion: &mut Criterion, contest: &mut Contest) {
    let mut group = criterion.benchmark_group(&contest.name);
    let mut time = |name: &str, runner: &mut Runner| {
        group.bench_function(name, |bencher| bencher.iter_custom(&mut *runner));
    };
    time("cofferdam", &mut contest.ours);
    time(contest.reference_name, &mut contest.reference);
    group.finish();
}
