//! One tenant's rows: a count for each kind of event, in the window that runs and in the one before.

use std::mem;
use std::time::{Duration, Instant};

use super::event::{Event, EventKind, OK};
use crate::snapshot::Snapshot;

/// Rows of one tenant in one window.
pub(super) const MAX_ROWS: usize = 24;

/// How long a window is: the record has this one and the last, so half a minute to a whole one.
pub(super) const WINDOW: Duration = Duration::from_secs(30);

/// Classes of which a tenant's usual time is known.
const MAX_USUAL: usize = 16;

/// A window whose mean is more than so many times the usual one is no usual one.
const UNUSUAL: u64 = 3;

/// How much of a window goes into what is usual, at least: one part of so many.
const SLOWLY: u64 = 32;

/// The rows of one tenant.
#[derive(Debug)]
pub(super) struct TenantRows {
    /// Since when there is a record.
    pub(super) since: Instant,
    /// When the window that runs ends.
    ends: Instant,
    current: Window,
    before: Window,
    /// By class, how long its answers take when nothing is wrong.
    pub(super) usual: Vec<Usual>,
}

/// One window's rows.
#[derive(Debug, Default)]
struct Window {
    rows: Vec<Row>,
    /// Events without a row.
    unlisted: u64,
}

/// All events of one kind.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) kind: EventKind,
    pub(super) level: &'static str,
    pub(super) reason: &'static str,
    pub(super) status: u16,
    pub(super) class: Box<str>,
    pub(super) cell: Option<Box<str>>,
    /// What the route matches, and what of `cell.dependencies` it names.
    pub(super) route: Option<Box<str>>,
    pub(super) dependency: Option<Box<str>>,
    /// The route's address, by which it is known as long as the fleet file stays.
    route_at: usize,
    pub(super) count: u64,
    pub(super) sum_us: u64,
    pub(super) max_us: u64,
    /// Those that took more than half of what their route has.
    pub(super) n_late: u64,
}

/// How long one class's answers usually take.
#[derive(Debug)]
pub(super) struct Usual {
    pub(super) class: Box<str>,
    pub(super) us: u64,
    n_windows: u64,
}

impl TenantRows {
    pub(super) fn new(now: Instant) -> Self {
        let (current, before) = (Window::default(), Window::default());
        Self { since: now, ends: now + WINDOW, current, before, usual: Vec::new() }
    }

    /// Goes on to the window that `now` is in.
    pub(super) fn turn(&mut self, now: Instant) {
        if now < self.ends {
            return;
        }
        let late = now.duration_since(self.ends);
        mem::swap(&mut self.current, &mut self.before);
        self.current.clear();
        self.learn();
        if late >= WINDOW {
            self.before.clear();
        }
        let into_this = late.as_nanos() % WINDOW.as_nanos();
        self.ends = now + WINDOW - Duration::from_nanos(into_this as u64);
    }

    /// How long ago what is recorded began.
    pub(super) fn covers(&self, now: Instant) -> Duration {
        let left = self.ends.saturating_duration_since(now).min(WINDOW);
        now.saturating_duration_since(self.since).min(WINDOW * 2 - left)
    }

    pub(super) fn add(&mut self, snapshot: &Snapshot, event: Event<'_>, now: Instant) {
        self.turn(now);
        self.current.add(snapshot, event);
    }

    /// The rows of both windows, and how many events have none.
    pub(super) fn rows(&self) -> (impl Iterator<Item = &Row>, u64) {
        let rows = self.current.rows.iter().chain(&self.before.rows);
        (rows, self.current.unlisted + self.before.unlisted)
    }

    /// Takes the window that has just ended into what is usual.
    fn learn(&mut self) {
        for row in self.before.rows.iter().filter(|row| row.is_well()) {
            let mean = row.sum_us / row.count.max(1);
            let Some(usual) = self.usual.iter_mut().find(|usual| usual.class == row.class) else {
                if self.usual.len() < MAX_USUAL {
                    self.usual.push(Usual { class: row.class.clone(), us: mean, n_windows: 1 });
                }
                continue;
            };
            let parts = if mean > usual.us * UNUSUAL { SLOWLY } else { SLOWLY.min(usual.n_windows + 1) };
            usual.us = (usual.us * (parts - 1) + mean) / parts;
            usual.n_windows += 1;
        }
    }
}

impl Window {
    fn clear(&mut self) {
        self.rows.clear();
        self.unlisted = 0;
    }

    fn add(&mut self, snapshot: &Snapshot, event: Event<'_>) {
        let class = snapshot.fleet.cell.classes[event.class.get()].name.as_str();
        let cell = event.cell.map(|cell| snapshot.cells[cell.get()].id.as_str());
        let route_at = event.route.map_or(0, |route| std::ptr::from_ref(route) as usize);
        let is_it = |row: &Row| {
            row.reason == event.reason
                && row.status == event.status
                && row.kind == event.kind
                && row.level == event.level
                && row.route_at == route_at
                && *row.class == *class
                && row.cell.as_deref() == cell
        };
        if let Some(row) = self.rows.iter_mut().find(|row| is_it(row)) {
            return row.count(&event);
        }
        if self.rows.len() >= MAX_ROWS {
            self.unlisted += 1;
            return;
        }
        let dependency = event.route.and_then(|route| route.dependency);
        let dependency = dependency.map(|at| snapshot.fleet.cell.dependencies[at.get()].name.as_str().into());
        let route = event.route.map(|route| route.matches_text().trim_end().into());
        let Event { kind, level, reason, status, .. } = event;
        let (class, cell) = (class.into(), cell.map(Into::into));
        let (count, sum_us, max_us, n_late) = (0, 0, 0, 0);
        let mut row = Row {
            kind,
            level,
            reason,
            status,
            class,
            cell,
            route,
            dependency,
            route_at,
            count,
            sum_us,
            max_us,
            n_late,
        };
        row.count(&event);
        self.rows.push(row);
    }
}

impl Row {
    fn count(&mut self, event: &Event<'_>) {
        self.count += 1;
        if let Some((took, is_late)) = event.took {
            let us = took.as_micros() as u64;
            self.sum_us += us;
            self.max_us = self.max_us.max(us);
            self.n_late += u64::from(is_late);
        }
    }

    fn is_well(&self) -> bool {
        self.kind == EventKind::Answer && self.reason == OK
    }
}
