//! A request that waits for the store's word, and the word. It knows no leases.

use std::fmt;
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
    /// The store had heard of something later, and so answered nothing.
    pub(super) stale: bool,
    /// The tokens and the permit that were granted to this one alone.
    pub(super) reserved: Option<Box<dyn Reserved>>,
}

/// What was granted to one who waits, and to nobody else. It waits for that one until this is dropped, and goes back then.
pub(super) trait Reserved: fmt::Debug + Send + Sync {
    /// It was taken: there is nothing to give back.
    fn taken(self: Box<Self>);
}

/// How many permits are reserved: they are no surplus.
#[derive(Debug, Default)]
pub(super) struct Reservations(AtomicU32);

impl Want {
    /// Whether `level` only counts what it would refuse.
    pub(super) fn is_shadow(&self, level: Level) -> bool {
        self.question.lend().levels.get(level).is_some_and(|policy| policy.shadow)
    }
}

impl Reservations {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}
