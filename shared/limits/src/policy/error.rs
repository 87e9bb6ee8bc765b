//! Why numbers are not a policy.

use cofferdam_model::{Level, Rate};

use super::bounds::{MAX_LEVELS, MAX_WINDOW_S, MAX_WINDOWS, max_quota};

/// Why numbers are not a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A bucket without room for one token.
    #[error("bucket capacity 0 is not at least 1")]
    NoCapacity,
    /// The level would not fit into 53 bits.
    #[error("bucket capacity {capacity} at {rate} is not exact: capacity x {} us exceeds 2^53", rate.period_us())]
    Inexact {
        /// The capacity, in tokens.
        capacity: u64,
        /// The rate, whose period is the unit.
        rate: Rate,
    },
    /// A window of no time, or too long a one.
    #[error("window of {0} s is outside 1 to {MAX_WINDOW_S}")]
    WindowLength(u64),
    /// A quota that admits nothing, or whose weighted count would not fit into 53 bits.
    #[error("quota {limit} in {window_s} s is outside 1 to {}", max_quota(*window_s))]
    QuotaSize {
        /// The quota, in tokens.
        limit: u64,
        /// Its window, in seconds.
        window_s: u32,
    },
    /// Too many windows, or two of one length.
    #[error("{0} windows are not at most {MAX_WINDOWS}, each of its own length")]
    WindowCount(usize),
    /// A line in which nobody may wait as long as it says, or longer than its times are exact.
    #[error("a line of {depth} that waits at most {max_wait_us} us is not possible")]
    Line {
        /// How many may wait.
        depth: u32,
        /// How long one may wait, in microseconds.
        max_wait_us: u64,
    },
    /// A shape above the route level.
    #[error("level {0} has a shape: only a route is let through evenly")]
    Shaped(Level),
    /// A limit that a route cannot have.
    #[error("a route has no {0} of its own: that is counted by tenant")]
    OnRoute(&'static str),
    /// No levels, or too many.
    #[error("{0} levels are not between 1 and {MAX_LEVELS}")]
    LevelCount(usize),
    /// A level that is there twice, or wider than the one before it.
    #[error("level {0} is out of order: levels go from wide to narrow, each at most once")]
    LevelOrder(Level),
}
