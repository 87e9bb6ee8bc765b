//! Why a bulkhead or a pool took no call, in words that name it. It knows neither of them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Why a call was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It is full, and so is its queue, or the wait was too long.
    #[error("bulkhead {name} is full: {active} of {limit} places in use, {queued} of {queue} queued")]
    Full {
        /// The bulkhead or pool.
        name: Arc<str>,
        /// Places held.
        active: u32,
        /// How many there are.
        limit: u32,
        /// Calls waiting.
        queued: u32,
        /// How many may wait.
        queue: u32,
        /// How long the call had waited; zero where it was denied on entry.
        waited: Duration,
    },
    /// It was closed; this is no refusal and is not counted as one.
    #[error("bulkhead {0} is shut down")]
    ShutDown(
        /// The bulkhead or pool.
        Arc<str>,
    ),
}

impl Denied {
    /// Whether `error`, or what caused it, is a call that was not taken: nothing was asked of the dependency, so that it says
    /// nothing of its health, and to try again at once would meet the same.
    ///
    /// ```
    /// use cofferdam_bulkhead::{Bulkhead, Denied};
    ///
    /// let full = Bulkhead::new("payment", 0);
    /// let denied = full.try_acquire().unwrap_err();
    /// assert!(Denied::is_cause_of(&denied));
    /// assert!(!Denied::is_cause_of(&std::io::Error::other("connection reset")));
    /// ```
    pub fn is_cause_of(error: &(dyn Error + 'static)) -> bool {
        error.is::<Self>() || error.source().is_some_and(Self::is_cause_of)
    }
}
