//! What the contract needs of a store that it tries.

use std::sync::Arc;

use cofferdam_limits::LimitStore;

/// Where the clock stands at the start: some day of 2026, 10,000 s after midnight and after a month of 30 days began.
pub(crate) const START_US: u64 = 1_788_490_000_000_000;

/// A store to be tried, with its clock in the test's hand.
pub(crate) trait Subject: Sync {
    /// How many truths there are: the store, and what it falls back to where it sometimes does not answer.
    const N_TRUTHS: u32;
    /// A store without a past, whose clock stands at [`START_US`].
    fn new() -> Self;
    /// The store.
    fn store(&self) -> Arc<dyn LimitStore>;
    /// What the store falls back to, where that is a truth of its own.
    fn fallback(&self) -> Option<Arc<dyn LimitStore>> {
        None
    }
    /// Moves the store's clock.
    fn set_us(&self, now_us: u64);
    /// Waits until every answer that is on its way has arrived.
    fn settle(&self);
}
