//! A request that waits for the store's word, and the word. It knows no leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam_model::Level;
use tokio::sync::oneshot;

use crate::OwnedDemand;
use crate::refusal::Refused;

/// One who waits.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) question: Arc<OwnedDemand>,
    /// How often it has asked before, because others took what was granted. Each time more is borrowed.
    pub(super) round: u32,
    pub(super) told: oneshot::Sender<Told>,
}

/// What the store said to one who waits.
#[derive(Debug)]
pub(super) struct Told {
    /// What refused; nothing where there may be something to take now.
    pub(super) refused: Vec<Refused>,
    /// What would have refused, had its level not been a shadow.
    pub(super) shadowed: Vec<Refused>,
    /// The store grants nothing yet, because it lost what it knew.
    pub(super) learning: bool,
    /// Whether it was the fleet's ceiling that was asked.
    pub(super) is_ceiling: bool,
    /// The tokens and the permit that were granted to this one alone wait for it until this is dropped.
    pub(super) reserved: Option<Reserved>,
}

/// Keeps what was granted to one who waits from being given back as surplus.
#[derive(Debug)]
pub(super) struct Reserved(Arc<Reservations>);

/// How much is reserved.
#[derive(Debug, Default)]
pub(super) struct Reservations(AtomicU32);

impl Want {
    /// Whether `level` only counts what it would refuse.
    pub(super) fn is_shadow(&self, level: Level) -> bool {
        self.question.lend().levels.get(level).is_some_and(|policy| policy.shadow)
    }
}

impl Reserved {
    pub(super) fn new(reservations: &Arc<Reservations>) -> Self {
        reservations.0.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(reservations))
    }
}

impl Reservations {
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
