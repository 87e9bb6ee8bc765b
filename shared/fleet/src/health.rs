//! `health`: when routers believe a cell down and up again, and how one that returns takes up its work.

use std::time::Duration;

use crate::node::Fields;

/// The longest slow start.
const MAX_SLOW_START: Duration = Duration::from_secs(600);

/// When a cell is believed down, and what becomes of one that returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthRules {
    /// Failed probes in a row that make a cell down; 2 by default.
    pub fall: u32,
    /// Good probes in a row that bring it back; 2 by default.
    pub rise: u32,
    /// How long the share of a cell that has returned grows until it is all of its requests; 10 s by default, and none at 0.
    pub slow_start: Duration,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self { fall: 2, rise: 2, slow_start: Duration::from_secs(10) }
    }
}

impl HealthRules {
    /// What is not given has its default.
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("health") else { return default };
        let fields = section.fields(&["fall", "rise", "slow_start"]);
        let slow_start = fields.get("slow_start");
        let slow_start = slow_start.and_then(|node| node.duration(Duration::ZERO..=MAX_SLOW_START));
        Self {
            fall: fields.whole_u32_or("fall", 1..=100, default.fall),
            rise: fields.whole_u32_or("rise", 1..=100, default.rise),
            slow_start: slow_start.unwrap_or(default.slow_start),
        }
    }
}
