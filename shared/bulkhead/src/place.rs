//! The place that a request holds, and what it is a place in. It knows no rule of admission.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::core::{Core, Held, Woken};
use crate::estimate::in_us;
use crate::layout::Layout;
use crate::lock::{Mutex, MutexGuard};

/// A place in the cell, the class, the tenant's compartment and under the caps. Dropping it, on any thread, releases
/// them all.
#[must_use = "a place is released when it is dropped"]
pub struct Place {
    shared: Arc<Shared>,
    held: Held,
}

/// What all handles and places share.
pub(crate) struct Shared {
    pub(crate) epoch: u64,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) core: Core,
    pub(crate) layout: Arc<Layout>,
    /// Snapshots taken.
    pub(crate) sequence: u64,
}

impl Shared {
    pub(crate) fn new(layout: Layout) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = State { core: Core::new(&layout), layout: Arc::new(layout), sequence: 0 };
        // Microseconds of Unix time fit for half a million years.
        Self { epoch: since.as_micros() as u64, state: Mutex::new(state) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Place {
    pub(crate) fn new(shared: &Arc<Shared>, mut held: Held) -> Self {
        if held.is_measured && held.since.is_none() {
            held.since = Some(Instant::now());
        }
        Self { shared: Arc::clone(shared), held }
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }
}

// The counts are behind the lock, which a line of the log is no reason to take.

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.held.since.map(|since| (since, Instant::now()));
        let held_us = now.map(|(since, now)| in_us(now.saturating_duration_since(since)));
        let mut state = self.shared.lock();
        state.core.release(self.held, held_us);
        if !state.core.is_contended() {
            return;
        }
        let mut woken = Woken::default();
        state.core.hand_on(now.map_or_else(Instant::now, |(_, now)| now), &mut woken);
        // Not under the lock: a waker may run anything, a release among it.
        drop(state);
        woken.wake();
    }
}
