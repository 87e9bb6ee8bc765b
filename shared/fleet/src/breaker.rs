//! `breaker`: when the backend, or a dependency of it, is left alone for a while, and who tries it again.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Share;
use crate::node::Node;

/// How long an outcome counts, and how long a breaker stays open.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// When a breaker opens and how it closes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRules {
    /// Failures within the window that open it; 5 by default.
    pub failures: u32,
    /// The share of what ended within the window that must have failed as well; 0.5 by default.
    pub share: Share,
    /// How long an outcome counts; 10 s by default.
    pub window: Duration,
    /// How long it stays open; 30 s by default.
    pub open_for: Duration,
    /// How many may try then, all of which have to succeed; 1 by default.
    pub probes: u32,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self {
            failures: 5,
            share: Share::from_millionths(500_000),
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(30),
            probes: 1,
        }
    }
}

impl BreakerRules {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let default = Self::default();
        let fields = node.fields(&["failures", "share", "window", "open_for", "probes"]);
        let time = |key| fields.get(key).and_then(|node| node.duration(TIMES));
        Self {
            failures: fields.whole_u32_or("failures", 1..=1_000_000, default.failures),
            share: fields.scalar("share").unwrap_or(default.share),
            window: time("window").unwrap_or(default.window),
            open_for: time("open_for").unwrap_or(default.open_for),
            probes: fields.whole_u32_or("probes", 1..=1000, default.probes),
        }
    }
}
