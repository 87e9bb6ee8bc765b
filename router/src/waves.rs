//! A change of the table that is let loose in waves: how far it is, and what a slot has until its turn. Who moves it on is not
//! known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cofferdam_limits::redis::{ReleaseName, ReleaseProgress};
use cofferdam_model::Shard;
use cofferdam_placement::{Placement, Release};

use crate::accepted::Origin;

/// One change on its way.
#[derive(Debug)]
pub(crate) struct Wave {
    release: Arc<Release>,
    pub(crate) name: ReleaseName,
    /// What it leads away from.
    pub(crate) from: Origin,
    n_loose: AtomicU32,
    n_orders: AtomicU32,
    is_closed: AtomicBool,
}

impl Wave {
    /// The way from `old`, of which `from` is what is kept, to `new`; none where no slot has to wait.
    pub(crate) fn new(from: Origin, old: &Placement, new: &Placement) -> Option<Arc<Self>> {
        Some(Self::of(Arc::new(Release::new(old, new)?), new.digest().to_string(), from))
    }

    fn of(release: Arc<Release>, digest: String, from: Origin) -> Arc<Self> {
        let name = ReleaseName { digest, began: from.began };
        let (n_loose, n_orders, is_closed) = Default::default();
        Arc::new(Self { release, name, from, n_loose, n_orders, is_closed })
    }

    /// The same way, as far as it is gone, begun by another revision.
    pub(crate) fn begun_by(&self, revision: u64) -> Arc<Self> {
        let from = Origin { began: revision, table: self.from.table.clone() };
        let wave = Self::of(Arc::clone(&self.release), self.name.digest.clone(), from);
        wave.advance(self.progress());
        wave
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

    /// How many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.release.bytes()
    }

    /// How many have had their turn.
    pub(crate) fn n_loose(&self) -> u32 {
        self.n_loose.load(Ordering::Relaxed)
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> ReleaseProgress {
        ReleaseProgress { n_loose: self.n_loose(), n_orders: self.n_orders.load(Ordering::Relaxed) }
    }

    /// How far it is once `progress` is known as well: no slot goes back, and no order gives way to one before it.
    pub(crate) fn after(&self, progress: ReleaseProgress) -> ReleaseProgress {
        let ReleaseProgress { n_loose, n_orders } = self.progress();
        ReleaseProgress {
            n_loose: n_loose.max(progress.n_loose.min(self.n_slots())),
            n_orders: n_orders.max(progress.n_orders),
        }
    }

    /// Takes note of how far it is.
    pub(crate) fn advance(&self, progress: ReleaseProgress) {
        let ReleaseProgress { n_loose, n_orders } = self.after(progress);
        self.n_loose.fetch_max(n_loose, Ordering::Relaxed);
        self.n_orders.fetch_max(n_orders, Ordering::Relaxed);
    }

    /// Whether somebody stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.progress().is_stopped()
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
