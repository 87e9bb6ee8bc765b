//! What operators have changed for single tenants, for a while, over what the fleet file says. It is in this process, in the store
//! where there is one, so that every router has it, and on disk where the router was given a folder, so that it outlives both.
//! Nothing here knows how it is asked for.
//!
//! [`Kept`] keeps one kind of them; what a kind means is in a folder of its own.

mod asked;
mod clock;
mod from_disk;
mod kept;
pub(crate) mod limits;
mod looking;
mod metrics;
pub(crate) mod placement;
mod said;
mod saved;
mod shared;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use cofferdam_limits::redis::OverrideBook;
use cofferdam_proxy::handover::Ownership;
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
    /// Those in `state`, which bind at once. Those in `books` are taken by whoever follows them; without books they change only while
    /// they are this process's.
    pub(crate) fn new(
        snapshots: Arc<ArcSwap<Snapshot>>,
        books: Option<Books>,
        state: Option<StateDir>,
        ownership: &Ownership,
    ) -> Self {
        let (generation, clock) = (AtomicU64::new(0), Arc::default());
        let saved = state.map(|state| Saved::read(state, &[Override::KIND, Record::KIND]));
        let ownership = ownership.clone();
        let shared = Arc::new(Shared { snapshots, generation, clock, saved, ownership });
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
        tasks.spawn(Arc::clone(&self.placement).count_wards());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use cofferdam_fleet::Fleet;
    use cofferdam_model::{Alphabet, TenantId};
    use futures_util::FutureExt;

    use serde_json::json;

    use super::clock::StoreClock;
    use super::limits::Asked;
    use super::said::Fitted as _;
    use super::*;
    use crate::cells::Directory;

    fn snapshots() -> Arc<ArcSwap<Snapshot>> {
        let text = "fleet: f\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\ntenant: { unknown: p }\n\
                    plans: { p: { sustained: 1/s, burst: 9, max_in_flight: 9 } }\n";
        let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
        Arc::new(ArcSwap::from_pointee(Snapshot::build(fleet, &Directory::default()).unwrap()))
    }

    #[test]
    fn a_change_whose_asker_leaves_before_the_disk_has_it_comes_to_the_disk_before_a_successor_does() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let state = StateDir::open(folder.path()).unwrap();
            let ownership = Ownership::default();
            let overrides = Overrides::new(snapshots(), None, Some(state), &ownership);
            let (free, is_free) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || is_free.recv());
            let asked = Asked::read(br#"{"burst": 2, "for": "1h"}"#).unwrap();
            // The first is on its way to a disk that is busy, and the second waits behind it.
            for tenant in ["acme", "globex"] {
                let tenant = TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap();
                assert!(overrides.limits.put(&tenant, &asked).now_or_never().is_none());
            }
            assert!(ownership.give().now_or_never().is_none());
            free.send(()).unwrap();
            busy.await.unwrap().unwrap();
            tokio::time::timeout(Duration::from_secs(20), ownership.give()).await.unwrap();
            let on_disk = std::fs::read_to_string(folder.path().join("overrides.json")).unwrap();
            assert!(on_disk.contains("acme") && on_disk.contains("globex"), "{on_disk}");
        });
    }

    #[test]
    fn what_does_not_fit_is_shown_as_left_out_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path()).unwrap();
        let now_ms = StoreClock::default().now_ms();
        let (first, last) = (now_ms + 3_600_000, now_ms + 7_200_000);
        let word = |to: &str, until_ms: u64| json!({ "to": [to], "since_ms": 0, "until_ms": until_ms, "reason": "r" });
        let placement =
            json!({ "until_ms": last, "pin": word("gone", first), "quarantine": word("a", last) });
        let limits =
            json!({ "until_ms": first, "since_ms": 0, "sustained": "7/86400000000us", "burst": 200_000 });
        let kinds = json!({ "placement": { "acme": placement }, "limits": { "acme": limits } });
        state.write("overrides.json", kinds.to_string().as_bytes()).unwrap();
        let overrides = Overrides::new(snapshots(), None, Some(state), &Ownership::default());
        let (limits, placement) = (overrides.limits.fitted(), overrides.placement.fitted());
        let n_left_out = || (limits.n_left_out(), placement.n_left_out());
        assert_eq!(n_left_out(), (1, 2));
        assert_eq!(placement.left_out().len(), 2);
        for (then_ms, left) in [(first, (0, 1)), (last, (0, 0))] {
            let clock = &overrides.shared.clock;
            clock.note(clock.ask(), then_ms);
            assert_eq!(n_left_out(), left);
        }
    }
}
