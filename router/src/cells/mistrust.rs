//! How much a cell that fails is held to be busier than it looks. A cell that fails fast has little in flight and
//! reports little load: without this, it would draw all requests to it.
//!
//! Each failure weighs as much as one request in flight, and half of it is forgotten in [`HALVES`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HALVES: Duration = Duration::from_secs(1);

/// Of the word, the low bits hold the sum without the last eight of its own: it is as exact as one part in 65,536. Above
/// them are whole milliseconds since `born`, enough for 34 years.
const SUM_BITS: u32 = 24;

/// Failures of one cell, fading: when the sum was told last, and the sum, in one word.
#[derive(Debug)]
pub(super) struct Mistrust {
    born: Instant,
    word: AtomicU64,
}

impl Mistrust {
    pub(super) fn new() -> Self {
        Self { born: Instant::now(), word: AtomicU64::new(0) }
    }

    /// One failure more.
    pub(super) fn add(&self, now: Instant) {
        let at = self.ms(now);
        let one_more = |word| Some(pack(at, faded(word, at) + 1.0));
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }

    /// As how many requests in flight the failures weigh.
    pub(super) fn weight(&self, now: Instant) -> f32 {
        match self.word.load(Ordering::Relaxed) {
            0 => 0.0,
            word => faded(word, self.ms(now)),
        }
    }

    fn ms(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.born).as_millis() as u64
    }
}

fn pack(at: u64, sum: f32) -> u64 {
    at << SUM_BITS | u64::from(sum.to_bits() >> (u32::BITS - SUM_BITS))
}

/// The sum as it is at `at`.
fn faded(word: u64, at: u64) -> f32 {
    let sum = f32::from_bits((word << (u64::BITS - SUM_BITS) >> u32::BITS) as u32);
    // Another thread's clock may be a little ahead.
    let passed = at.saturating_sub(word >> SUM_BITS);
    sum * (-(passed as f32) / HALVES.as_millis() as f32).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_weigh_and_fade() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        assert_eq!(mistrust.weight(now), 0.0);
        for _ in 0..8 {
            mistrust.add(now);
        }
        assert!((mistrust.weight(now) - 8.0).abs() < 0.01);
        assert!((mistrust.weight(now + HALVES * 3) - 1.0).abs() < 0.01);
    }

    /// The difference of two times in 32 bits was negative from day 24.9 on, and the old sum whole again until day 49.7.
    #[test]
    fn a_failure_of_weeks_ago_weighs_nothing() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        for _ in 0..8 {
            mistrust.add(now);
        }
        for days in [1, 24, 25, 40, 49, 50, 75, 400, 10_000] {
            let later = now + Duration::from_hours(24 * days);
            assert_eq!(mistrust.weight(later), 0.0, "day {days}");
        }
        let late = now + Duration::from_hours(24 * 40);
        mistrust.add(late);
        assert_eq!(mistrust.weight(late), 1.0);
    }

    #[test]
    fn many_failures_are_counted_one_by_one() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        for _ in 0..50_000 {
            mistrust.add(now);
        }
        assert_eq!(mistrust.weight(now), 50_000.0);
    }
}
