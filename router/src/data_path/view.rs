//! One worker's view of a snapshot: the snapshot, its own connections to the cells, and its own counters. It is made
//! anew when the snapshot was swapped, or something was changed of a tenant for a while; connections to cells that stayed are kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_model::{CellIndex, TenantId};
use cofferdam_proxy::upstream::{Address, Upstream, UpstreamLimits};
use parking_lot::Mutex;

use super::metrics::{Metrics, ViewCounters};
use crate::cells::{Cell, Whereabouts};
use crate::overrides::Overrides;
use crate::overrides::{limits, placement};
use crate::snapshot::Snapshot;
use crate::top::Counters;

/// A snapshot as one worker sees it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) snapshot: Arc<Snapshot>,
    /// Who has other limits than its plan's for a while.
    pub(super) overridden: Arc<limits::Fitted>,
    /// Where tenants are, in `snapshot`.
    pub(super) placed: Arc<placement::Fitted>,
    /// Of both, at least.
    generation: u64,
    /// By `CellIndex`.
    pub(super) upstreams: Vec<Upstream>,
    pub(super) counters: ViewCounters,
    /// What the worker counts by tenant.
    pub(super) top: Arc<Counters>,
    /// How long a cell's answer may be silent.
    pub(super) stream_idle: Duration,
}

/// A worker's cached view.
#[derive(Debug)]
pub(super) struct CachedView {
    overrides: Arc<Overrides>,
    metrics: Metrics,
    top: Arc<Counters>,
    limits: UpstreamLimits,
    view: Mutex<Arc<View>>,
}

impl CachedView {
    pub(super) fn new(
        overrides: Arc<Overrides>,
        metrics: Metrics,
        top: Arc<Counters>,
        limits: UpstreamLimits,
    ) -> Self {
        let view = Arc::new(View::new(&overrides, None, &metrics, Arc::clone(&top), limits));
        Self { overrides, metrics, top, limits, view: Mutex::new(view) }
    }

    /// The view of the snapshot that is current now.
    pub(super) fn current(&self) -> Arc<View> {
        let mut view = self.view.lock();
        // Whoever swaps the snapshot has the overrides fitted to it.
        if !self.is_current(&view) {
            let (metrics, top) = (&self.metrics, Arc::clone(&self.top));
            *view = Arc::new(View::new(&self.overrides, Some(&view), metrics, top, self.limits));
        }
        Arc::clone(&view)
    }

    /// Whether nothing has changed since `view` was made.
    #[inline]
    pub(super) fn is_current(&self, view: &View) -> bool {
        view.generation == self.overrides.generation()
    }
}

impl View {
    fn new(
        overrides: &Overrides,
        old: Option<&Self>,
        metrics: &Metrics,
        top: Arc<Counters>,
        limits: UpstreamLimits,
    ) -> Self {
        // In this order: what is taken is at least as new as its number.
        let generation = overrides.generation();
        let (overridden, placed) = (overrides.limits.fitted(), overrides.placement.fitted());
        let snapshot = Arc::clone(&placed.snapshot);
        let old: HashMap<String, &Upstream> = old
            .into_iter()
            .flat_map(|old| &old.upstreams)
            .map(|upstream| (upstream.address().to_string(), upstream))
            .collect();
        let upstream = |cell: &Arc<Cell>| {
            let address = Address::Tcp(Arc::clone(&cell.endpoint));
            let kept = old.get(cell.endpoint.authority()).filter(|old| *old.address() == address);
            kept.map_or_else(|| Upstream::to(address, limits), |kept| Upstream::clone(kept))
        };
        let upstreams = snapshot.cells.iter().map(upstream).collect();
        let counters = ViewCounters::new(&snapshot, metrics);
        Self {
            snapshot,
            overridden,
            placed,
            generation,
            upstreams,
            counters,
            top,
            stream_idle: limits.stream_idle,
        }
    }

    /// A cell was lost while the tenant had a request in flight on it, since `sent`. One that has said since that it leaves, and
    /// when it cuts what is left, was not.
    pub(super) fn note_loss(
        &self,
        tenant: &TenantId,
        cell: CellIndex,
        whereabouts: Whereabouts,
        sent: Instant,
    ) {
        let snapshot = &self.snapshot;
        let now = Instant::now();
        if snapshot.fleet.poison_guard && !snapshot.cells[cell.get()].has_left(sent, now) {
            snapshot.losses.note(tenant, &snapshot.cells[cell.get()].id, whereabouts, now);
        }
    }
}
