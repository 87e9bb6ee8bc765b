//! The admin listener: what an operator asks of a running router. On loopback; never on the data path.

mod cells;
mod fleet;
mod tenants;

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::routing::get;
use cofferdam_limits::Limits;
use parking_lot::Mutex;

use crate::snapshot::Snapshot;

/// What the admin listener answers from. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) snapshots: Arc<ArcSwap<Snapshot>>,
    pub(crate) limits: Limits,
    /// Why the last fleet file that was offered was not taken; `None` where it was.
    pub(crate) last_reload_error: Arc<Mutex<Option<String>>>,
}

impl Admin {
    /// The routes: `/fleet`, `/cells`, `/tenants/{tenant}`.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/fleet", get(fleet::show))
            .route("/cells", get(cells::list))
            .route("/tenants/{tenant}", get(tenants::show))
            .with_state(self)
    }
}
