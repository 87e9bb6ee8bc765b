//! Which tenants use most, and which are refused most, over the last minute or two. Each worker counts for itself, in
//! memory that does not grow with the tenants, and what they counted is put together when an operator asks: a tenant is
//! no label of any metric. A count may be too high, by no more than it says, and never too low.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_model::{ClassName, TenantId};
use cofferdam_telemetry::refusals::{Counted as Refused, Refusals};
use cofferdam_telemetry::top::{Ranking, Recent};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::recent::{self, TenantRecent, WorkerRecord};
use crate::snapshot::Snapshot;

/// Counters of each worker, for each way to count and each window. Whoever has more than one in so many is found.
const N_COUNTERS: u16 = 256;

/// How long a window is: what is shown is this one and the last.
const WINDOW: Duration = Duration::from_secs(60);

/// What tenants are ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// Requests that were admitted.
    #[default]
    Use,
    /// What those cost.
    Cost,
    /// Requests that a limit refused, or a cell for want of room.
    Refusals,
}

/// What all workers counted. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Top {
    began: Instant,
    workers: Arc<Mutex<Vec<Arc<Counters>>>>,
    /// The same refusals by reason and class, for the log.
    pub(crate) refusals: Refusals<ClassName, TenantId>,
}

/// What one worker counts and records. Nobody else takes its locks but whoever asks, for as long as a copy takes.
#[derive(Debug)]
pub(crate) struct Counters {
    counted: Mutex<Counted>,
    /// The last minute, tenant by tenant.
    pub(crate) record: WorkerRecord,
    /// By reason and class.
    pub(crate) refusals: Refused<ClassName, TenantId>,
}

#[derive(Debug)]
struct Counted {
    used: Recent<TenantId>,
    /// Nothing as long as every request cost one: then it is the same as `used`.
    cost: Option<Recent<TenantId>>,
    refused: Recent<TenantId>,
}

impl Default for Top {
    fn default() -> Self {
        Self { began: Instant::now(), workers: Arc::default(), refusals: Refusals::default() }
    }
}

impl Top {
    /// Counters for one more worker.
    pub(crate) fn worker(&self) -> Arc<Counters> {
        let recent = || Recent::new(N_COUNTERS, WINDOW, self.began);
        let counted = Counted { used: recent(), cost: None, refused: recent() };
        let (refusals, record) = (self.refusals.worker(), WorkerRecord::default());
        let counters = Arc::new(Counters { counted: Mutex::new(counted), record, refusals });
        self.workers.lock().push(Arc::clone(&counters));
        counters
    }

    /// The tenants that have most of it.
    pub(crate) fn ranking(&self, by: By, now: Instant) -> Ranking<TenantId> {
        let copies: Vec<_> = self.workers.lock().iter().map(|worker| worker.copy(by, now)).collect();
        Ranking::of(&copies, now)
    }

    /// What all workers recorded of one tenant within the last minute.
    pub(crate) fn recent(&self, tenant: &TenantId, snapshot: &Snapshot, now: Instant) -> TenantRecent {
        let workers = self.workers.lock();
        recent::of(workers.iter().map(|worker| &worker.record), tenant, snapshot, now)
    }

    /// Of a ranking with this total: whoever has more is in it.
    pub(crate) fn counted_above(total: u64) -> u64 {
        total / u64::from(N_COUNTERS)
    }
}

impl Counters {
    /// Counts a request that was admitted.
    pub(crate) fn admitted(&self, tenant: &TenantId, cost: u32, now: Instant) {
        let mut counted = self.counted.lock();
        let Counted { used, cost: costs, .. } = &mut *counted;
        if cost != 1 && costs.is_none() {
            *costs = Some(used.clone());
        }
        if let Some(costs) = costs {
            costs.add(tenant, cost.into(), now);
        }
        used.add(tenant, 1, now);
    }

    /// Counts a request that was refused.
    pub(crate) fn refused(&self, tenant: &TenantId, now: Instant) {
        self.counted.lock().refused.add(tenant, 1, now);
    }

    fn copy(&self, by: By, now: Instant) -> Recent<TenantId> {
        let mut counted = self.counted.lock();
        let Counted { used, cost, refused } = &mut *counted;
        let recent = match by {
            By::Use => used,
            By::Cost => cost.as_mut().unwrap_or(used),
            By::Refusals => refused,
        };
        recent.turn(now);
        recent.clone()
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    #[test]
    fn what_workers_counted_is_put_together_and_forgotten_after_two_windows() {
        let (acme, globex) = (tenant("acme"), tenant("globex"));
        let top = Top::default();
        let (one, other) = (top.worker(), top.worker());
        let now = Instant::now();
        one.admitted(&acme, 1, now);
        one.admitted(&acme, 7, now);
        other.admitted(&acme, 0, now);
        other.admitted(&globex, 16, now);
        other.refused(&globex, now);
        let counts = |by, now| -> Vec<_> {
            let entries = top.ranking(by, now).entries;
            entries.into_iter().map(|entry| (entry.key, entry.count)).collect()
        };
        assert_eq!(counts(By::Use, now), [(acme, 3), (globex, 1)]);
        assert_eq!(counts(By::Cost, now), [(globex, 16), (acme, 8)]);
        assert_eq!(counts(By::Refusals, now), [(globex, 1)]);
        assert_eq!(counts(By::Use, now + WINDOW).len(), 2);
        assert!(counts(By::Use, now + 2 * WINDOW).is_empty());
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
    }
}
