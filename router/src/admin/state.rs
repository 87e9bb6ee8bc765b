//! What every admin answer is made from.

use std::sync::Arc;

use arc_swap::ArcSwap;
use cofferdam_limits::Limits;
use cofferdam_limits::redis::RedisStore;
use parking_lot::Mutex;

use crate::overrides::Overrides;
use crate::snapshot::Snapshot;
use crate::top::Top;

/// What the admin listener answers from. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) snapshots: Arc<ArcSwap<Snapshot>>,
    pub(crate) overrides: Arc<Overrides>,
    pub(crate) limits: Limits,
    /// The store that is shared with other routers, where there is one.
    pub(crate) shared: Option<Arc<RedisStore>>,
    pub(crate) top: Top,
    /// Why the last fleet file that was offered was not taken; `None` where it was.
    pub(crate) last_reload_error: Arc<Mutex<Option<String>>>,
}
