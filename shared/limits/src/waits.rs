//! How long requests waited for the store, by buckets. It knows neither stores nor names on the wire.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of waits, in microseconds; one more bucket has what is above.
pub const WAIT_BOUNDS_US: [u64; 9] = [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000];

const N_BUCKETS: usize = WAIT_BOUNDS_US.len() + 1;

/// How many requests waited for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// By [`WAIT_BOUNDS_US`]; each counts only what is in no bucket before it.
    pub buckets: [u64; N_BUCKETS],
    /// How long they waited together.
    pub sum: Duration,
}

/// The counters behind [`Waits`].
#[derive(Debug, Default)]
pub(crate) struct WaitCounters {
    buckets: [AtomicU64; N_BUCKETS],
    sum_us: AtomicU64,
}

impl Waits {
    /// How many requests waited at all.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl WaitCounters {
    pub(crate) fn add(&self, waited: Duration) {
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let bucket = WAIT_BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Waits {
        Waits {
            buckets: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_a_bound_is_below_it_and_one_of_more_is_not() {
        let counters = WaitCounters::default();
        for us in [0, 250, 251, 10_000, 10_001, 2_000_000] {
            counters.add(Duration::from_micros(us));
        }
        let waits = counters.snapshot();
        assert_eq!(waits.buckets, [2, 1, 0, 0, 0, 1, 1, 0, 0, 1]);
        assert_eq!((waits.count(), waits.sum), (6, Duration::from_micros(2_020_502)));
    }
}
