//! The policy of a shape: a route that is let through evenly, one request after the other, before a slow downstream.

use std::time::Duration;

use cofferdam_model::Rate;

use super::bounds::MAX_EXACT;
use super::error::PolicyError;

/// A leaky bucket: requests go on at `rate`, evenly; who comes early waits in a line that is bounded twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShapePolicy {
    rate: Rate,
    depth: u32,
    // Invariant: there is a wait where there is a line, and none where there is none; the wait x N is at most 2^53.
    max_wait_us: u64,
}

impl ShapePolicy {
    /// Lets requests go on at `rate`. At most `depth` wait for their turn, none of them longer than `max_wait`, of which
    /// less than a microsecond is dropped. Without a line nobody waits: who comes early is refused.
    pub fn new(rate: Rate, depth: u32, max_wait: Duration) -> Result<Self, PolicyError> {
        let max_wait_us = u64::try_from(max_wait.as_micros()).unwrap_or(u64::MAX);
        let exact = max_wait_us.checked_mul(rate.tokens()).is_some_and(|units| units <= MAX_EXACT);
        if !exact || (depth == 0) != (max_wait_us == 0) {
            return Err(PolicyError::Line { depth, max_wait_us });
        }
        Ok(Self { rate, depth, max_wait_us })
    }

    /// How fast requests go on.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How many may wait.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// How long one may wait.
    pub fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_depth_and_a_wait_or_neither() {
        let rate: Rate = "5/s".parse().unwrap();
        let second = Duration::from_secs(1);
        let shape = ShapePolicy::new(rate, 3, second).unwrap();
        assert_eq!((shape.rate(), shape.depth(), shape.max_wait()), (rate, 3, second));
        assert!(ShapePolicy::new(rate, 0, Duration::ZERO).is_ok());
        for (depth, max_wait) in [(0, second), (3, Duration::ZERO), (3, Duration::MAX)] {
            assert!(ShapePolicy::new(rate, depth, max_wait).is_err(), "{depth} {max_wait:?}");
        }
    }
}
