//! A step of ours beside its reference, and how either is run many times. It knows neither what is run nor any target.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{hint, thread};

/// Runs something so many times, and says how long that took.
pub(crate) type Runner = Box<dyn FnMut(u64) -> Duration>;

/// One step of ours, and what it is held against.
pub(crate) struct Contest {
    /// What is done, and under which circumstances.
    pub(crate) name: String,
    pub(crate) ours: Runner,
    pub(crate) reference_name: &'static str,
    pub(crate) reference: Runner,
    /// How many times the reference's time ours may take; `None` where that is only reported.
    pub(crate) target: Option<f64>,
}

/// Runs `act` on this thread. It is given the number of the run, which goes on from one call to the next, so that short
/// calls together see all of a large table.
pub(crate) fn alone(act: impl Fn(usize) + 'static) -> Runner {
    let mut first = 0;
    Box::new(move |n_runs| {
        let runs = first..first + n_runs as usize;
        first = runs.end;
        time(|| runs.for_each(&act))
    })
}

/// Runs `act` on two threads at once, as often on each; it is given the thread's number. The time is the slower thread's.
pub(crate) fn in_two_threads(act: impl Fn(usize) + Sync + 'static) -> Runner {
    Box::new(move |n_runs| {
        let turn = AtomicUsize::new(0);
        let run = |thread| {
            meet(&turn, thread);
            time(|| (0..n_runs).for_each(|_| act(thread)))
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| run(1));
            let mine = run(0);
            mine.max(other.join().expect("the other thread comes to its end"))
        })
    })
}

/// Returns on both threads at once, when both really run: they have called to and fro many times, which takes
/// microseconds on two cores, and would take a turn of the scheduler's each time on one.
fn meet(turn: &AtomicUsize, thread: usize) {
    const N_CALLS: usize = 64;
    for mine in (thread..N_CALLS).step_by(2) {
        while turn.load(Ordering::Acquire) < mine {
            hint::spin_loop();
        }
        turn.fetch_add(1, Ordering::AcqRel);
    }
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}
