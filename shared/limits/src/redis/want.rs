//! A request that waits for the store's word, and the word. It knows no leases.

use std::sync::Arc;

use cofferdam_model::Level;
use tokio::sync::oneshot;

use crate::refusal::Refused;
use crate::{Grant, OwnedDemand};

/// One who waits.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) question: Arc<OwnedDemand>,
    pub(super) told: oneshot::Sender<Told>,
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

impl Want {
    /// Whether `level` only counts what it would refuse.
    pub(super) fn is_shadow(&self, level: Level) -> bool {
        self.question.lend().levels.get(level).is_some_and(|policy| policy.shadow)
    }
}
