//! Whether sessions compete for a key.

use cofferdam_limits::redis::{Contention, Keeps};

use super::moment::Moment;

const RECALL_EVERY_US: i128 = 5_000;

/// The mark of a contended key: until when it is one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark(i128);

impl Mark {
    /// What is said of the key to one who is short of something, or not; `is_idle` where others may hold something idle.
    pub(super) fn meet(&mut self, is_short: bool, is_idle: bool, moment: &Moment<'_>) -> Contention {
        let ends = moment.now + moment.ttl.div_euclid(3);
        if is_short && is_idle {
            self.0 = ends;
            return Contention::Recalled;
        }
        if moment.now < self.0.min(ends) { Contention::Contended } else { Contention::None }
    }
}

/// Whether a session whose account ends then may hold something idle that it was not asked for.
pub(super) fn may_hold_idle(keeps: Keeps, ends: i128, moment: &Moment<'_>) -> bool {
    match keeps {
        Keeps::Nothing => false,
        Keeps::Spare => true,
        Keeps::Returned => moment.now - (ends - moment.ttl) >= RECALL_EVERY_US,
    }
}
