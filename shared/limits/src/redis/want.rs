//! A request that waits for the store's word, and the word. It knows no leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_model::Level;
use tokio::sync::oneshot;

use crate::refusal::Refused;
use crate::{Grant, OwnedDemand};

/// One who waits.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) question: Arc<OwnedDemand>,
    pub(super) told: oneshot::Sender<Told>,
    /// When it is to be asked for again, after what was short may have come back; nothing where it is its first time.
    pub(super) again_at: Option<Instant>,
    /// Until when it is asked for again.
    pub(super) patience_ends: Instant,
}

/// What the store said to one who waits.
#[derive(Debug)]
pub(super) struct Told {
    /// What refused; nothing where all was taken.
    pub(super) refused: Vec<Refused>,
    /// What would have refused, had its level not been a shadow.
    pub(super) shadowed: Vec<Refused>,
    /// The store lost what it knew, or has heard of something later, and there was nothing to take: it said nothing of the limits.
    pub(super) is_unknown: bool,
    /// What was taken of this subject for the one who waits. It goes back where that one does not come for it.
    pub(super) grant: Grant,
}

/// What was short is asked for again after so long.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(1);
/// Nobody waits longer than that for others to return what idles with them, whatever the budget is.
const MOST_PATIENCE: Duration = Duration::from_secs(1);

impl Want {
    /// One that waits for an answer within `budget`. Of that two fifths are kept for the last answer.
    pub(super) fn new(question: Arc<OwnedDemand>, told: oneshot::Sender<Told>, budget: Duration) -> Self {
        let patience = MOST_PATIENCE.min(budget * 3 / 5);
        Self { question, told, again_at: None, patience_ends: Instant::now() + patience }
    }

    /// Whether it may be asked for now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.again_at.is_none_or(|at| at <= now)
    }

    /// Has it asked for once more, if there is time.
    pub(super) fn wait_again(&mut self) -> bool {
        let at = Instant::now() + AGAIN_AFTER;
        let is_in_time = at < self.patience_ends;
        if is_in_time {
            self.again_at = Some(at);
        }
        is_in_time
    }

    /// Whether `level` only counts what it would refuse.
    pub(super) fn is_shadow(&self, level: Level) -> bool {
        self.question.lend().levels.get(level).is_some_and(|policy| policy.shadow)
    }
}
