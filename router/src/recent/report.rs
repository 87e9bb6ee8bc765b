//! What the record says of one tenant, as the admin listener answers it and the command reads it.

use std::time::Instant;

use cofferdam_model::TenantId;
use serde::{Deserialize, Serialize};

use super::event::EventKind;
use super::rows::{Row, TenantRows};
use super::waiting::Waiting;
use crate::snapshot::Snapshot;

/// The last minute of one tenant at one router, as `GET /tenants/{tenant}/recent` answers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRecent {
    /// The tenant.
    pub tenant: String,
    /// How far back the counts go, in milliseconds; 0 where nothing is on record.
    pub covers_ms: u64,
    /// Requests that have ended.
    pub requests: u64,
    /// What became of them, the most frequent first.
    pub rows: Vec<RecentRow>,
    /// Events that found no row: the record of one tenant is bounded.
    pub unlisted: u64,
    /// Requests that wait for an answer of a cell now.
    pub waiting: Vec<RecentWaiting>,
    /// How often a tenant was forgotten for another since this router began: the record has a bounded number of them.
    pub forgotten: u64,
}

/// What one router answers about a tenant's last minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentAnswer {
    /// The tenant's last minute.
    pub recent: TenantRecent,
    /// This router's session at the store, where it has one.
    pub session: Option<String>,
    /// The sessions of all routers that live, as the store knows them; none where it does not say.
    pub live: Option<Vec<String>>,
    /// Whether the store has just begun to remember this tenant, and lends nothing yet.
    pub is_store_new: bool,
}

/// How often one thing happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRow {
    /// What is counted.
    pub kind: EventKind,
    /// Where it was decided: `fleet`, `tenant` or `route` for a limit, `cell`, `backend`, `drill`, `request` or `client`.
    pub level: String,
    /// Why, in the words of the metric `cofferdam_router_refusals`; `ok` and `error` of a backend's own answers.
    pub reason: String,
    /// The status of a backend's error; else 0.
    pub status: u16,
    /// The class.
    pub class: String,
    /// The cell; none where no cell was asked.
    pub cell: Option<String>,
    /// What the route matches, where it has to do with it.
    pub route: Option<String>,
    /// What the route needs, where that has to do with it.
    pub dependency: Option<String>,
    /// How often.
    pub count: u64,
    /// How long it took to the head of the answer, in milliseconds.
    pub mean_ms: u64,
    /// The longest.
    pub max_ms: u64,
    /// How long an answer of this class usually takes this tenant, in milliseconds; none before half a minute was seen.
    pub usual_ms: Option<u64>,
    /// Those that took more than half of what their route has.
    pub late: u64,
}

/// Requests that wait for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentWaiting {
    /// The class; none where the fleet file has changed since.
    pub class: Option<String>,
    /// The cell.
    pub cell: Option<String>,
    /// How many.
    pub count: u64,
    /// For how long the oldest waits, in milliseconds.
    pub oldest_ms: u64,
    /// Those that have waited for more than half of what their route has.
    pub late: u64,
}

impl TenantRecent {
    pub(super) fn new(tenant: &TenantId) -> Self {
        Self { tenant: tenant.as_str().to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, rows: &TenantRows, now: Instant) {
        self.covers_ms = self.covers_ms.max(rows.covers(now).as_millis() as u64);
        let (listed, unlisted) = rows.rows();
        self.unlisted += unlisted;
        for row in listed {
            let usual = rows.usual.iter().find(|usual| usual.class == row.class);
            self.add_row(row_of(row, usual.map(|usual| usual.us / 1000)));
        }
    }

    pub(super) fn add_waiting(&mut self, waiting: &Waiting, snapshot: &Snapshot, now: Instant) {
        let is_known = waiting.snapshot == std::ptr::from_ref(snapshot) as usize;
        let class = is_known.then(|| snapshot.fleet.cell.classes[waiting.class.get()].name.to_string());
        let cell = is_known.then(|| snapshot.cells[waiting.cell.get()].id.to_string());
        let waited = now.saturating_duration_since(waiting.since);
        let (oldest_ms, late) = (waited.as_millis() as u64, u64::from(waited > waiting.half));
        self.join_waiting(RecentWaiting { class, cell, count: 1, oldest_ms, late });
    }

    pub(super) fn sorted(mut self) -> Self {
        self.rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        self.waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.oldest_ms));
        self
    }

    /// Adds what another router recorded of the same tenant.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.covers_ms = self.covers_ms.max(other.covers_ms);
        (self.unlisted, self.forgotten) = (self.unlisted + other.unlisted, self.forgotten + other.forgotten);
        other.rows.into_iter().for_each(|row| self.add_row(row));
        other.waiting.into_iter().for_each(|waiting| self.join_waiting(waiting));
        self.sorted()
    }

    fn add_row(&mut self, row: RecentRow) {
        if row.kind == EventKind::Answer {
            self.requests += row.count;
        }
        match self.rows.iter_mut().find(|other| other.counts_the_same(&row)) {
            Some(other) => other.join(&row),
            None => self.rows.push(row),
        }
    }

    fn join_waiting(&mut self, waiting: RecentWaiting) {
        let same =
            |other: &&mut RecentWaiting| (&other.class, &other.cell) == (&waiting.class, &waiting.cell);
        match self.waiting.iter_mut().find(same) {
            Some(other) => {
                other.count += waiting.count;
                other.late += waiting.late;
                other.oldest_ms = other.oldest_ms.max(waiting.oldest_ms);
            }
            None => self.waiting.push(waiting),
        }
    }
}

impl RecentRow {
    fn counts_the_same(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.kind, row.status);
        key(self) == key(other)
            && (&self.level, &self.reason, &self.class) == (&other.level, &other.reason, &other.class)
            && (&self.cell, &self.route) == (&other.cell, &other.route)
    }

    fn join(&mut self, other: &Self) {
        let count = self.count + other.count;
        self.mean_ms = (self.mean_ms * self.count + other.mean_ms * other.count) / count.max(1);
        self.max_ms = self.max_ms.max(other.max_ms);
        self.usual_ms = self.usual_ms.into_iter().chain(other.usual_ms).max();
        (self.count, self.late) = (count, self.late + other.late);
    }
}

fn row_of(row: &Row, usual_ms: Option<u64>) -> RecentRow {
    let text = |name: &Option<Box<str>>| name.as_deref().map(str::to_owned);
    RecentRow {
        kind: row.kind,
        level: row.level.to_owned(),
        reason: row.reason.to_owned(),
        status: row.status,
        class: row.class.to_string(),
        cell: text(&row.cell),
        route: text(&row.route),
        dependency: text(&row.dependency),
        count: row.count,
        mean_ms: row.sum_us / row.count.max(1) / 1000,
        max_ms: row.max_us / 1000,
        usual_ms,
        late: row.n_late,
    }
}
