//! Faults of the store, on real processes under load: two routers that share limits in Redis, one agent, and one backend that
//! counts what is in flight. For each fault it prints how many requests failed because of it, how much was in flight at
//! most beside the written bound, how long it took until the limits were exact again, and how many requests waited
//! for the store for more than 10 ms. `make faults-limits` runs it; `tests/FAULTS.md` keeps its table.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it measures, and says what it saw"
)]

mod backend;
mod fault;
mod load;
mod row;
mod scene;

#[allow(dead_code, reason = "the integration tests have their own part of it")]
#[path = "../support/mod.rs"]
mod support;

use fault::Fault;

/// Runs the faults whose names begin with an argument; all of them without one.
fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |fault: &Fault| {
        wanted.is_empty() || wanted.iter().any(|name| fault.name().starts_with(name.as_str()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut is_kept = true;
    println!("{}", row::HEAD);
    for fault in Fault::ALL.into_iter().filter(is_wanted) {
        let row = runtime.block_on(row::measure(fault));
        println!("{row}");
        is_kept &= row.is_kept();
    }
    assert!(is_kept, "a bound was exceeded, or a request failed");
}
