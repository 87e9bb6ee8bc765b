//! The engine's counters, and a snapshot of them. Names and labels on the wire are the router's affair.

use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_model::{Level, Limited};

use crate::Refusal;
use crate::permit::Shadowed;
use crate::waits::{WaitCounters, Waits};

const N_LEVELS: usize = Level::ALL.len();
const N_LIMITED: usize = Limited::ALL.len();

/// What the engine has decided since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    refused: [[u64; N_LIMITED]; N_LEVELS],
    shadowed: [[u64; N_LIMITED]; N_LEVELS],
    /// Demands that were admitted without the store, because it failed or was late.
    pub fallback_admitted: u64,
    /// Questions that the store answered with an error.
    pub store_errors: u64,
    /// Questions that had no answer within the budget.
    pub store_timeouts: u64,
    /// How long demands waited for the store, whatever decided them in the end.
    pub waits: Waits,
    /// The store's own.
    pub store: StoreMetrics,
}

/// What a store holds in this process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreMetrics {
    /// Demands that the store admitted.
    pub admitted: u64,
    /// What is in flight at the fleet level, over all tenants.
    pub fleet_in_flight: u32,
    /// Tenants with a state of their own.
    pub tenants: usize,
    /// The most that there can be.
    pub tenants_max: usize,
    /// Tenants with a state of their own on a route that has a limit; there can be as many.
    pub on_routes: usize,
    /// Times that an idle tenant was forgotten to make room.
    pub evicted: u64,
    /// Times that a demand had to share a state, because there was no room.
    pub overflowed: u64,
}

impl Metrics {
    /// Demands that `level` refused because of `limited`, by the store or without it.
    pub fn refused(&self, level: Level, limited: Limited) -> u64 {
        self.refused[level as usize][limited as usize]
    }

    /// Demands that `level` would have refused because of `limited`, and let pass, since it is a shadow.
    pub fn shadowed(&self, level: Level, limited: Limited) -> u64 {
        self.shadowed[level as usize][limited as usize]
    }
}

/// The counters behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    refused: [[Counter; N_LIMITED]; N_LEVELS],
    shadowed: [[Counter; N_LIMITED]; N_LEVELS],
    pub(crate) fallback_admitted: Counter,
    pub(crate) store_errors: Counter,
    pub(crate) store_timeouts: Counter,
    pub(crate) waits: WaitCounters,
}

/// A number that only grows. It orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts a refusal, and hands it on.
    pub(crate) fn refused(&self, refusal: Refusal) -> Refusal {
        self.refused[refusal.level as usize][refusal.limited as usize].add_one();
        refusal
    }

    /// Counts what passed a shadow.
    #[inline]
    pub(crate) fn passed(&self, shadowed: Shadowed) {
        if !shadowed.is_empty() {
            self.count_shadowed(shadowed);
        }
    }

    #[cold]
    fn count_shadowed(&self, shadowed: Shadowed) {
        for level in Level::ALL {
            for limited in Limited::ALL.into_iter().filter(|limited| shadowed.has(level, *limited)) {
                self.shadowed[level as usize][limited as usize].add_one();
            }
        }
    }

    pub(crate) fn snapshot(&self, store: StoreMetrics) -> Metrics {
        let values = |counters: &[[Counter; N_LIMITED]; N_LEVELS]| {
            counters.each_ref().map(|level| level.each_ref().map(Counter::get))
        };
        Metrics {
            refused: values(&self.refused),
            shadowed: values(&self.shadowed),
            fallback_admitted: self.fallback_admitted.get(),
            store_errors: self.store_errors.get(),
            store_timeouts: self.store_timeouts.get(),
            waits: self.waits.snapshot(),
            store,
        }
    }
}
