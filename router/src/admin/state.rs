//! What every admin answer is made from.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use cofferdam_limits::Limits;
use cofferdam_limits::redis::RedisStore;
use parking_lot::Mutex;

use crate::moves::Moves;
use crate::overrides::Overrides;
use crate::overrides::placement::Changes;
use crate::releasing::Releasing;
use crate::snapshot::Snapshot;
use crate::top::Top;

/// What the admin listener answers from. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) snapshots: Arc<ArcSwap<Snapshot>>,
    pub(crate) overrides: Arc<Overrides>,
    pub(crate) changes: Changes,
    pub(crate) releasing: Arc<Releasing>,
    pub(crate) moves: Arc<Moves>,
    pub(crate) limits: Limits,
    /// The store that is shared with other routers, where there is one.
    pub(crate) shared: Option<Arc<RedisStore>>,
    pub(crate) top: Top,
    /// Why the last fleet file that was offered was not taken; `None` where it was.
    pub(crate) last_reload_error: Arc<Mutex<Option<String>>>,
}

impl Admin {
    /// Whose an override is: every router's that has the store, or this one's alone.
    pub(super) fn overrides_are(&self) -> &'static str {
        if self.overrides.limits.are_shared() { "shared" } else { "local" }
    }
}

/// A time of day, as RFC 3339 writes it.
pub(super) fn time(ms: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    at.map(|at| humantime::format_rfc3339_millis(at).to_string()).unwrap_or_default()
}
