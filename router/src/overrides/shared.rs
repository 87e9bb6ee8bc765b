//! What all kinds of overrides have in common at one router.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use cofferdam_proxy::handover::Ownership;

use super::clock::StoreClock;
use super::saved::Saved;
use crate::snapshot::Snapshot;

/// What all kinds have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) snapshots: Arc<ArcSwap<Snapshot>>,
    /// Grows when what binds was replaced, of any kind.
    pub(super) generation: AtomicU64,
    pub(super) clock: Arc<StoreClock>,
    pub(super) saved: Option<Saved>,
    /// Whether this process may change what no store keeps.
    pub(super) ownership: Ownership,
}
