//! What a kind of overrides has to be, to be kept.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::clock::StoreClock;
use crate::snapshot::Snapshot;

/// What is said of one tenant. In the store it is JSON whose first word is its end, which the store's script reads:
/// `{"until_ms":N,`.
pub(crate) trait Said: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A word of letters: it names the kind in the store, on disk, in logs and in metrics.
    const KIND: &'static str;

    /// What requests look at: everything that is said, made ready for one snapshot. It is made anew when either changes, and
    /// never on the way of a request.
    type Fitted: Fitted;

    /// When all of it has ended, in milliseconds since 1970.
    fn until_ms(&self) -> u64;

    /// Makes what is said of tenants, by their names, ready for `snapshot`. What does not fit is told and left out.
    fn fit(said: &HashMap<String, Self>, snapshot: &Arc<Snapshot>, clock: &Arc<StoreClock>) -> Self::Fitted;

    /// Whether it has ended by then.
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms()
    }
}

/// What can be counted of it.
pub(crate) trait Fitted: Debug + Send + Sync {
    /// For how many tenants it binds now.
    fn n_binding(&self) -> usize;

    /// How many of what is said do not fit, and do not bind.
    fn n_left_out(&self) -> usize;
}
