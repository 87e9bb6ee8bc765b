//! What operators have changed for single tenants, for a while, over what the fleet file says. It is in this process, in the store
//! where there is one, so that every router has it, and on disk where the router was given a folder, so that it outlives both.
//! Nothing here knows how it is asked for.
//!
//! [`Kept`] keeps one kind of them; what a kind means is in a folder of its own.

mod asked;
mod clock;
mod kept;
pub(crate) mod limits;
mod metrics;
pub(crate) mod placement;
mod said;
mod saved;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use cofferdam_limits::redis::OverrideBook;
use tokio::task::JoinSet;

pub(crate) use kept::{AlterError, Kept};
pub(crate) use metrics::OverridesCollector;
pub(crate) use said::Said;

use self::limits::Override;
use self::placement::Record;
use self::saved::Saved;
use self::shared::Shared;
use crate::snapshot::Snapshot;
use crate::state_dir::StateDir;

/// Everything that is overridden at one router.
#[derive(Debug)]
pub(crate) struct Overrides {
    pub(crate) limits: Arc<Kept<Override>>,
    pub(crate) placement: Arc<Kept<Record>>,
    shared: Arc<Shared>,
}

/// Where the store keeps each kind.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) limits: OverrideBook,
    pub(crate) placement: OverrideBook,
}

impl Overrides {
    /// Those in `state`, which bind at once. Those in `books` are taken by whoever follows them.
    pub(crate) fn new(
        snapshots: Arc<ArcSwap<Snapshot>>,
        books: Option<Books>,
        state: Option<StateDir>,
    ) -> Self {
        let (generation, clock) = (AtomicU64::new(0), Arc::default());
        let shared = Arc::new(Shared { snapshots, generation, clock, saved: state.map(Saved::read) });
        let (limits, placement) = books.map(|books| (books.limits, books.placement)).unzip();
        let limits = Arc::new(Kept::new(Arc::clone(&shared), limits));
        let placement = Arc::new(Kept::new(Arc::clone(&shared), placement));
        Self { limits, placement, shared }
    }

    /// Grows with every change: who has seen it needs not look at the rest.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Fits everything to the snapshot that is current now.
    pub(crate) fn refit(&self) {
        self.limits.refit();
        self.placement.refit();
    }

    /// Takes over what the store has, and keeps it on disk, in tasks of their own.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        tasks.spawn(Arc::clone(&self.limits).follow());
        tasks.spawn(Arc::clone(&self.placement).follow());
    }
}
