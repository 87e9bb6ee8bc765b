//! The busiest second so far: what a compartment has to be sized for is the peak, which no average shows.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::time::Instant;

/// Counts arrivals by the second. Threads may count at once; one that comes late by a whole second counts for the second
/// that runs.
#[derive(Debug)]
pub(crate) struct Busiest {
    began: Instant,
    // The second since `began` in the upper half, and what came in it in the lower.
    now: AtomicU64,
    most: AtomicU32,
}

impl Busiest {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, now: AtomicU64::new(0), most: AtomicU32::new(0) }
    }

    /// One more came at `at`.
    pub(crate) fn count(&self, at: Instant) {
        // A process of 136 years begins again.
        let second = at.saturating_duration_since(self.began).as_secs() as u32;
        let one_more = |now: u64| {
            let (counted, n) = ((now >> 32) as u32, now as u32);
            let n = if counted >= second { n.saturating_add(1) } else { 1 };
            u64::from(counted.max(second)) << 32 | u64::from(n)
        };
        let before = self.now.update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let n = one_more(before) as u32;
        if n > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(n, Ordering::Relaxed);
        }
    }

    /// The most that came within one second.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_most_within_one_second_is_kept() {
        let began = Instant::now();
        let busiest = Busiest::new(began);
        for ms in [0, 10, 999, 1000, 1500, 2000, 2001, 2002, 2999, 5000] {
            busiest.count(began + Duration::from_millis(ms));
        }
        assert_eq!(busiest.most(), 4);
        busiest.count(began);
        assert_eq!(
            (busiest.now.load(Ordering::Relaxed), busiest.most()),
            (5 << 32 | 2, 4),
            "late by seconds"
        );
    }
}
