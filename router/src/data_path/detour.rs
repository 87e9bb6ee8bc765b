//! A request that cannot set out as it came: its tenant is being moved, and it waits outside of the door; or what it saw of the
//! fleet was old by the time that it came in, and it looks anew. It holds nothing meanwhile, and goes where its tenant is then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_proxy::grpc;
use http::Request;
use http::request::Parts;
use hyper::body::Incoming;

use super::identify::Identified;
use super::reject::{Reason, Rejection};
use super::view::{CachedView, View};
use crate::door::{Door, Hold, Inside};

/// A request on its way round.
#[derive(Debug)]
pub(super) struct Detour {
    pub(super) request: Request<Incoming>,
    pub(super) is_grpc: bool,
    wait: Option<(Arc<Hold>, Duration)>,
}

/// What keeps a request from coming in.
#[derive(Debug)]
pub(super) struct Outside(Option<(Arc<Hold>, Duration)>);

/// Comes in by `door`, with a view that is as new as the door's word.
pub(super) fn enter(
    door: &Arc<Door>,
    identified: &Identified<'_>,
    cached: &CachedView,
    view: &View,
) -> Result<Inside, Outside> {
    match door.enter(&identified.tenant) {
        // In this order: whoever opens a door has made known before where the tenant is.
        Ok(inside) if cached.is_current(view) => Ok(inside),
        Ok(_) => Err(Outside(None)),
        Err(hold) => Err(Outside(Some((hold, identified.route.timeout)))),
    }
}

impl Detour {
    pub(super) fn new(head: Parts, body: Incoming, outside: Outside) -> Self {
        let is_grpc = grpc::is_call(&head);
        Self { request: Request::from_parts(head, body), is_grpc, wait: outside.0 }
    }

    /// Waits for what it has to wait for, and no longer than its route's time.
    pub(super) async fn wait(&self, arrived: Instant) -> Result<(), Rejection> {
        let Some((hold, timeout)) = &self.wait else { return Ok(()) };
        let waited = hold.wait(arrived + *timeout).await;
        waited.map_err(|error| Rejection::new(Reason::Moving, error.to_string()))
    }
}
