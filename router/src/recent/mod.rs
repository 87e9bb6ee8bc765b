//! The record of the last minute: for each tenant how many requests were answered, refused or failed, by reason, level, class and
//! cell, and how long that took. An operator's question about one tenant is answered from it; a tenant is no label of any metric.
//!
//! Each worker records for itself, under a lock that only an operator's question takes beside it. Memory is bounded: a worker knows
//! [`N_TENANTS`] tenants and forgets the one that was not used for longest, a tenant has [`rows::MAX_ROWS`] rows in a window, and what
//! finds no row is counted without its reason. At the bound a worker's record has some 14 MiB; usual are 300 bytes a tenant.

mod event;
mod report;
mod rows;
mod waiting;

use std::time::{Duration, Instant};

use cofferdam_fleet::ClassIndex;
use cofferdam_model::{CellIndex, TenantId};
use cofferdam_telemetry::bounded::BoundedTable;
use parking_lot::Mutex;

pub use self::event::EventKind;
pub(crate) use self::event::{Event, OK};
pub use self::report::{RecentAnswer, RecentRow, RecentWaiting, TenantRecent};
use self::rows::TenantRows;
use self::waiting::Waiting;
use crate::snapshot::Snapshot;

/// Tenants that one worker's record knows.
const N_TENANTS: u32 = 2_048;

/// What one worker records.
#[derive(Debug)]
pub(crate) struct WorkerRecord(Mutex<Recorded>);

#[derive(Debug)]
struct Recorded {
    tenants: BoundedTable<TenantId, TenantRows>,
    /// A place for each attempt that waits for its answer; it grows to the most that ever did.
    waiting: Vec<Option<Waiting>>,
    /// Places that nobody has.
    free: Vec<u32>,
}

/// One attempt's place among those that wait. Dropped without a word, its caller went away.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    record: &'a WorkerRecord,
    snapshot: &'a Snapshot,
    place: u32,
    is_over: bool,
}

/// What these workers recorded of a tenant.
pub(crate) fn of<'w>(
    workers: impl Iterator<Item = &'w WorkerRecord>,
    tenant: &TenantId,
    snapshot: &Snapshot,
    now: Instant,
) -> TenantRecent {
    let mut report = TenantRecent::new(tenant);
    for worker in workers {
        let mut recorded = worker.0.lock();
        report.forgotten += recorded.tenants.forgotten();
        if let Some(rows) = recorded.tenants.get_mut(tenant) {
            rows.turn(now);
            report.add(rows, now);
        }
        for waiting in recorded.waiting.iter().flatten().filter(|waiting| waiting.tenant == *tenant) {
            report.add_waiting(waiting, snapshot, now);
        }
    }
    report.sorted()
}

impl Default for WorkerRecord {
    fn default() -> Self {
        let tenants = BoundedTable::new(N_TENANTS);
        Self(Mutex::new(Recorded { tenants, waiting: Vec::new(), free: Vec::new() }))
    }
}

impl WorkerRecord {
    /// Records an event that no attempt of [`WorkerRecord::begin`] ends with.
    pub(crate) fn note(&self, tenant: &TenantId, snapshot: &Snapshot, event: Event<'_>, now: Instant) {
        self.0.lock().tenants.get_or_insert_with(tenant, || TenantRows::new(now)).add(snapshot, event, now);
    }

    /// An attempt on a cell begins at `now`. An answer that takes longer than `half` of its route's time is late.
    pub(crate) fn begin<'a>(
        &'a self,
        tenant: &TenantId,
        snapshot: &'a Snapshot,
        (class, cell): (ClassIndex, CellIndex),
        now: Instant,
        half: Duration,
    ) -> Waits<'a> {
        let address = std::ptr::from_ref(snapshot) as usize;
        let waiting = Waiting { tenant: *tenant, class, cell, snapshot: address, since: now, half };
        let mut recorded = self.0.lock();
        let place = match recorded.free.pop() {
            Some(place) => {
                recorded.waiting[place as usize] = Some(waiting);
                place
            }
            None => {
                recorded.waiting.push(Some(waiting));
                // A process has far fewer connections and streams.
                (recorded.waiting.len() - 1) as u32
            }
        };
        Waits { record: self, snapshot, place, is_over: false }
    }
}

impl Waits<'_> {
    /// The attempt has ended, with an answer or without.
    pub(crate) fn ended(mut self, kind: EventKind, level: &'static str, reason: &'static str, status: u16) {
        self.is_over = true;
        self.record_end(kind, level, reason, status);
    }

    fn record_end(&self, kind: EventKind, level: &'static str, reason: &'static str, status: u16) {
        let now = Instant::now();
        let recorded = &mut *self.record.0.lock();
        let Some(waiting) = recorded.waiting[self.place as usize].take() else { return };
        recorded.free.push(self.place);
        let Waiting { tenant, class, cell, since, half, .. } = waiting;
        let took = now.saturating_duration_since(since);
        let took = Some((took, took > half));
        let event = Event { kind, level, reason, status, class, cell: Some(cell), route: None, took };
        let rows = recorded.tenants.get_or_insert_with(&tenant, || TenantRows::new(since));
        rows.add(self.snapshot, event, now);
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.record_end(EventKind::Answer, "client", "gone", 0);
        }
    }
}

#[cfg(test)]
mod tests;
