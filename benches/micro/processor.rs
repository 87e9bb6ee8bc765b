//! How long one thread has the processor for something that is too long for rounds. What it is done for is not known here.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Prints it beside its target, where there is one: the least of three, which is what the machine did least beside.
pub(crate) fn print<T>(what: &str, target_ms: Option<u32>, act: impl Fn() -> T) {
    let least = [(); 3].map(|()| time_of(&act)).into_iter().min().unwrap_or_default();
    let ms = 1000.0 * least.as_secs_f64();
    let verdict = match target_ms {
        None => String::new(),
        Some(target) if ms <= f64::from(target) => format!(" (target {target})"),
        Some(target) => format!(" (target {target}, MISSED)"),
    };
    println!("{what}: {ms:.0} ms of CPU{verdict}");
}

fn time_of<T>(act: impl Fn() -> T) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let begun = now();
    black_box(act());
    now() - begun
}
