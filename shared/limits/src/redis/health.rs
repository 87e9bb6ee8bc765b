//! Whether the store answers in time: a breaker, so that at most a few requests ever wait for a store that does not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The breaker. It opens at the first answer that is late or missing, and closes at the next that is in time: asking goes
/// on beside the requests, so nobody has to be sent ahead to try.
#[derive(Debug, Default)]
pub(super) struct Health {
    is_away: AtomicBool,
    n_opened: AtomicU64,
    n_closed: AtomicU64,
}

impl Health {
    /// Whether requests go on without waiting for the store.
    #[inline]
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// An answer is late, or will never come.
    pub(super) fn late(&self) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            self.n_opened.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An answer was in time.
    pub(super) fn answered(&self) {
        if self.is_away.load(Ordering::Relaxed) && self.is_away.swap(false, Ordering::Relaxed) {
            self.n_closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the store has come back so far.
    pub(super) fn n_closed(&self) -> u64 {
        self.n_closed.load(Ordering::Relaxed)
    }

    /// How often the store has been given up so far.
    pub(super) fn n_opened(&self) -> u64 {
        self.n_opened.load(Ordering::Relaxed)
    }
}
