//! How much a cell that fails is held to be busier than it looks. A cell that fails fast has little in flight and
//! reports little load: without this, it would draw all requests to it.
//!
//! Each failure weighs as much as one request in flight, and half of it is forgotten in [`HALVES`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HALVES: Duration = Duration::from_secs(1);

/// Failures of one cell, fading. Time in whole milliseconds since `born` and a sum, in one word.
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

    fn ms(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.born).as_millis() as u32
    }
}

fn pack(at: u32, sum: f32) -> u64 {
    u64::from(at) << 32 | u64::from(sum.to_bits())
}

/// The sum as it is at `at`. The milliseconds go round after seven weeks, and so does the difference.
fn faded(word: u64, at: u32) -> f32 {
    let (then, sum) = ((word >> 32) as u32, f32::from_bits(word as u32));
    // Another thread's clock may be a little ahead.
    let passed = (at.wrapping_sub(then) as i32).max(0);
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
}
