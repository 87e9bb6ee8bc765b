//! One worker's view of a snapshot: the snapshot, its own connections to the cells, and its own counters. It is made
//! anew when the snapshot was swapped; connections to cells that stayed are kept.

use std::sync::Arc;

use arc_swap::ArcSwap;
use cofferdam_proxy::upstream::{Address, Upstream, UpstreamLimits};
use parking_lot::Mutex;

use super::metrics::{Metrics, ViewCounters};
use crate::snapshot::Snapshot;

/// A snapshot as one worker sees it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) snapshot: Arc<Snapshot>,
    /// By `CellIndex`.
    pub(super) upstreams: Vec<Upstream>,
    pub(super) counters: ViewCounters,
}

/// A worker's cached view.
#[derive(Debug)]
pub(super) struct CachedView {
    snapshots: Arc<ArcSwap<Snapshot>>,
    metrics: Metrics,
    limits: UpstreamLimits,
    view: Mutex<Arc<View>>,
}

impl CachedView {
    pub(super) fn new(snapshots: Arc<ArcSwap<Snapshot>>, metrics: Metrics, limits: UpstreamLimits) -> Self {
        let view = Arc::new(View::new(snapshots.load_full(), None, &metrics, limits));
        Self { snapshots, metrics, limits, view: Mutex::new(view) }
    }

    /// The view of the snapshot that is current now.
    pub(super) fn current(&self) -> Arc<View> {
        let mut view = self.view.lock();
        let snapshot = self.snapshots.load();
        if !Arc::ptr_eq(&snapshot, &view.snapshot) {
            *view = Arc::new(View::new(Arc::clone(&snapshot), Some(&view), &self.metrics, self.limits));
        }
        Arc::clone(&view)
    }
}

impl View {
    fn new(snapshot: Arc<Snapshot>, old: Option<&Self>, metrics: &Metrics, limits: UpstreamLimits) -> Self {
        let kept = |authority: &str| {
            let is_there = |upstream: &&Upstream| *upstream.address() == Address::Tcp(authority.into());
            old.and_then(|old| old.upstreams.iter().find(is_there)).cloned()
        };
        let upstream = |authority: &str| kept(authority).unwrap_or_else(|| Upstream::new(authority, limits));
        let upstreams = snapshot.cells.iter().map(|cell| upstream(&cell.authority)).collect();
        let counters = ViewCounters::new(&snapshot, metrics);
        Self { snapshot, upstreams, counters }
    }
}
