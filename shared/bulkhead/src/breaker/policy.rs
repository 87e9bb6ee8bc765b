//! When a breaker opens, and the words for whoever passes it.

use std::time::Duration;

/// When a breaker opens and how it closes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures within the window that open it, at least one.
    pub failures: u32,
    /// The share of all that ended within the window that must have failed as well, in thousandths.
    pub share_thousandths: u32,
    /// How long an outcome counts.
    pub window: Duration,
    /// How long it stays open.
    pub open_for: Duration,
    /// How many may try at once then, and how many of them have to succeed; at least one.
    pub probes: u32,
}

/// A number that tells callers apart, such as a keyed hash of a tenant's name.
pub type Caller = u64;

/// How a call of the dependency ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Badly,
    Unknown,
}

impl Default for BreakerPolicy {
    /// Five failures of at least half of the calls within ten seconds open it for thirty; then one tries.
    fn default() -> Self {
        Self {
            failures: 5,
            share_thousandths: 500,
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(30),
            probes: 1,
        }
    }
}
