//! Who had requests in flight when a cell was lost: the guard against carrying a tenant's poison to its second cell.
//!
//! A cell is lost where a connection to it broke before its answer was whole, where it refuses connections from then on, or
//! where its agent says that it lost the backend so. A kept connection that broke at once, while a fresh one stands, was closed
//! for its age. What breaks within [`APART`] on one cell is one loss. A tenant that was there at
//! two losses within [`WINDOW`] is confined to its home cell for as long, and at each further loss anew.
//!
//! Others are there by chance as well. Of those who are at home on the lost cell one loss confines one at most: it is laid to
//! whoever was confined and was there, and counts for nobody else at home. So a cell that dies over and over takes their second
//! cell from one tenant and not from all. Whoever is away from home counts always, whoever else was there: to be confined is to
//! be kept from just that cell.
//!
//! So no tenant is at more than two losses of cells that are not its home within [`WINDOW`], and at the second it is
//! confined, nobody shields it. With each loss counted it could be one less: where the first at home was laid to another.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cofferdam_model::{CellId, TenantId};
use parking_lot::Mutex;

/// Where a tenant was when a cell was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// The lost cell is its home.
    Home,
    /// It is another of the tenant's cells.
    Away,
}

/// What breaks on one cell for so long is one loss.
const APART: Duration = Duration::from_secs(1);

/// Two losses within this confine a tenant, and for so long.
const WINDOW: Duration = Duration::from_secs(60);

/// The most tenants that are remembered with a loss, and at one loss. Who comes beyond is not counted.
const MAX_TENANTS: usize = 4096;

/// The losses of one fleet's cells, as one router saw them.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Read by each request; the table behind the lock is only where somebody is in it.
    n_confined: AtomicUsize,
    /// Losses, and tenants that were confined, since the start.
    n_losses: AtomicU64,
    n_ever_confined: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By cell, its last one.
    losses: HashMap<CellId, Loss>,
    /// Who was at one loss.
    suspects: HashMap<TenantId, Seen>,
    confined: HashMap<TenantId, Confined>,
    /// When what is too old was last taken out.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Loss {
    began: Instant,
    tenants: HashSet<TenantId>,
    /// Whether a confined tenant was there.
    is_explained: bool,
}

#[derive(Debug, Clone)]
struct Seen {
    cell: CellId,
    at: Instant,
    whereabouts: Whereabouts,
}

/// A tenant that is sent to its home cell alone.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    /// Since when.
    pub(crate) since: Instant,
    /// Until when, unless it is at another loss.
    pub(crate) until: Instant,
    /// Where it was at the two losses that confined it.
    pub(crate) cells: [CellId; 2],
}

/// What the metrics show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossCounts {
    pub(crate) losses: u64,
    pub(crate) ever_confined: u64,
    pub(crate) confined: usize,
}

impl Losses {
    /// A cell was lost while the tenant had a request in flight on it.
    pub(crate) fn note(&self, tenant: &TenantId, cell: &CellId, whereabouts: Whereabouts, now: Instant) {
        let mut table = self.table.lock();
        table.sweep(now);
        let (is_new, confined) = table.note(tenant, cell, whereabouts, now);
        self.n_losses.fetch_add(u64::from(is_new), Ordering::Relaxed);
        self.n_confined.store(table.confined.len(), Ordering::Relaxed);
        drop(table);
        if let Some([first, second]) = confined {
            self.n_ever_confined.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                %tenant, %first, %second,
                "tenant had requests in flight at two losses: it is sent to its home cell alone for 60 s"
            );
        }
    }

    /// Whether the tenant is sent to its home cell alone.
    pub(crate) fn is_confined(&self, tenant: &TenantId, now: Instant) -> bool {
        if self.n_confined.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.table.lock().confined.get(tenant).is_some_and(|confined| now < confined.until)
    }

    /// Every tenant that is confined, sorted.
    pub(crate) fn confined(&self, now: Instant) -> Vec<(TenantId, Confined)> {
        let table = self.table.lock();
        let is_now = |(_, confined): &(&TenantId, &Confined)| now < confined.until;
        let confined =
            table.confined.iter().filter(is_now).map(|(tenant, confined)| (*tenant, confined.clone()));
        let mut confined: Vec<_> = confined.collect();
        confined.sort_by_key(|(tenant, _)| *tenant);
        confined
    }

    /// Counts for metrics.
    pub(crate) fn counts(&self, now: Instant) -> LossCounts {
        LossCounts {
            losses: self.n_losses.load(Ordering::Relaxed),
            ever_confined: self.n_ever_confined.load(Ordering::Relaxed),
            confined: self.confined(now).len(),
        }
    }
}

impl Table {
    /// Takes out what is too old, now and then: a cell may be lost by thousands of tenants at once.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < APART) {
            return;
        }
        self.confined.retain(|_, confined| now < confined.until);
        self.suspects.retain(|_, seen| now.saturating_duration_since(seen.at) < WINDOW);
        self.losses.retain(|_, loss| now.saturating_duration_since(loss.began) < APART);
        self.swept = Some(now);
    }

    /// Whether this loss is a new one, and where the tenant was if it is confined by it.
    fn note(
        &mut self,
        tenant: &TenantId,
        cell: &CellId,
        whereabouts: Whereabouts,
        now: Instant,
    ) -> (bool, Option<[CellId; 2]>) {
        let Self { losses, suspects, confined, .. } = self;
        let is_new = losses.get(cell).is_none_or(|loss| now.saturating_duration_since(loss.began) >= APART);
        if is_new {
            losses.insert(cell.clone(), Loss { began: now, tenants: HashSet::new(), is_explained: false });
        }
        let Some(loss) = losses.get_mut(cell) else { return (is_new, None) };
        if loss.tenants.len() >= MAX_TENANTS || !loss.tenants.insert(*tenant) {
            return (is_new, None);
        }
        let earlier = |seen: &Seen| now.saturating_duration_since(seen.at) < WINDOW;
        let mut is_confined = None;
        if let Some(confined) = confined.get_mut(tenant).filter(|confined| now < confined.until) {
            confined.until = now + WINDOW;
            loss.is_explained = true;
        } else if loss.is_explained && whereabouts == Whereabouts::Home {
            return (is_new, None);
        } else if let Some(first) = suspects.remove(tenant).filter(earlier) {
            let cells = [first.cell, cell.clone()];
            is_confined = Some(cells.clone());
            confined.insert(*tenant, Confined { since: now, until: now + WINDOW, cells });
            loss.is_explained = true;
        } else if suspects.len() < MAX_TENANTS {
            suspects.insert(*tenant, Seen { cell: cell.clone(), at: now, whereabouts });
        }
        if loss.is_explained {
            // Nobody else at home is any longer thought the worse of for it.
            let stays = |seen: &Seen| {
                seen.cell != *cell || seen.at < loss.began || seen.whereabouts == Whereabouts::Away
            };
            suspects.retain(|_, seen| stays(seen));
        }
        (is_new, is_confined)
    }
}

#[cfg(test)]
mod tests;
