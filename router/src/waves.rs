//! A change of the table that is let loose in waves: how far it is, and what a slot has until its turn. Who moves it on is not
//! known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cofferdam_model::Shard;
use cofferdam_placement::{Placement, Release};

use crate::accepted::Recorded;

/// One change on its way.
#[derive(Debug)]
pub(crate) struct Wave {
    release: Release,
    /// What it leads away from.
    pub(crate) from: Recorded,
    n_loose: AtomicU32,
    is_stopped: AtomicBool,
    is_closed: AtomicBool,
}

impl Wave {
    /// The way from `old`, of which `from` is what is kept, to `new`; none where no slot has to wait.
    pub(crate) fn new(from: Recorded, old: &Placement, new: &Placement) -> Option<Arc<Self>> {
        let release = Release::new(old, new)?;
        let (n_loose, is_stopped, is_closed) = Default::default();
        Some(Arc::new(Self { release, from, n_loose, is_stopped, is_closed }))
    }

    /// What a slot has of its old cells, at most `size`, where it waits for its turn.
    #[inline]
    pub(crate) fn before(&self, slot: u32, size: usize) -> Option<Shard<'_>> {
        let n_loose = self.n_loose();
        if n_loose >= self.n_slots() {
            return None;
        }
        self.release.before(slot, size, n_loose)
    }

    /// How many slots change.
    pub(crate) fn n_slots(&self) -> u32 {
        self.release.n_slots()
    }

    /// How many have had their turn.
    pub(crate) fn n_loose(&self) -> u32 {
        self.n_loose.load(Ordering::Relaxed)
    }

    /// Takes note of how it stands. No slot goes back.
    pub(crate) fn advance(&self, n_loose: u32, is_stopped: bool) {
        self.n_loose.fetch_max(n_loose.min(self.n_slots()), Ordering::Relaxed);
        self.is_stopped.store(is_stopped, Ordering::Relaxed);
    }

    /// Whether somebody stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Whether every slot has had its turn.
    pub(crate) fn is_over(&self) -> bool {
        self.n_loose() >= self.n_slots()
    }

    /// True for the first who asks once it is over.
    pub(crate) fn close(&self) -> bool {
        self.is_over() && !self.is_closed.swap(true, Ordering::Relaxed)
    }
}
