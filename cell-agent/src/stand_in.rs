//! What stands in for an answer where the cell has no room, or leaves alone what the request needs: the last good answer or one
//! that is always the same, as the route says. Only for what changes nothing, GET and HEAD; and it says what it is.

use std::sync::Arc;

use bytes::Bytes;
use cofferdam_bulkhead::Refused;
use cofferdam_fleet::{Fallback, RouteIndex, StaticAnswer};
use cofferdam_model::{CellReason, Resort};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use crate::classify::Classified;
use crate::last_good::{Keeping, Key, LastGood};
use crate::rejection::Rejection;
use crate::rules::Rules;

/// How a cache handled a response (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// What may stand in for one request's answer.
pub(crate) struct StandIn {
    rules: Arc<Rules>,
    route: RouteIndex,
    /// Where a last good answer may be.
    key: Option<Key>,
    /// Whether its answer may stand in for a later one.
    is_get: bool,
    /// Whether its router may turn to another cell.
    may_move: bool,
}

impl StandIn {
    /// Of a request that `is` so, on a route that has a fallback. In a box, which keeps every other request's future small.
    pub(crate) fn of(rules: &Arc<Rules>, is: &Classified, head: &Parts) -> Option<Box<Self>> {
        let fallback = rules.route(is.route).fallback.as_ref()?;
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return None;
        }
        let key = fallback.last_good.and_then(|_| Key::of(&is.tenant, head));
        let (is_get, may_move) = (head.method == Method::GET, is.resort == Resort::Another);
        Some(Box::new(Self { rules: Arc::clone(rules), route: is.route, key, is_get, may_move }))
    }

    /// Begins to keep the backend's answer, if it may stand in for a later one.
    pub(crate) fn keep<B>(self, kept: &Arc<LastGood>, answer: &Response<B>) -> Option<Keeping> {
        kept.keep(self.key.filter(|_| self.is_get)?, answer)
    }

    /// What is answered instead of `rejection`, if anything is.
    pub(crate) fn answer(&self, kept: &LastGood, rejection: &Rejection) -> Option<Response<Bytes>> {
        let reason = match rejection {
            Rejection::Refused(Refused::Full { reason, .. }) => *reason,
            Rejection::Tripped(tripped) => tripped.reason,
            Rejection::Shed => CellReason::Cell,
            _ => return None,
        };
        // What a tenant did itself it is told.
        if reason == CellReason::Tenant || (reason == CellReason::Cell && self.may_move) {
            return None;
        }
        let Fallback { last_good, answer } = self.rules.route(self.route).fallback.as_ref()?;
        let last_good =
            self.key.as_ref().zip(*last_good).and_then(|(key, max_age)| kept.answer(key, max_age));
        let (mut response, status) = match (last_good, answer) {
            (Some(response), _) => (response, HeaderValue::from_static("cofferdam; hit; detail=fallback")),
            (None, Some(answer)) => (always(answer)?, HeaderValue::from_static("cofferdam; detail=fallback")),
            (None, None) => return None,
        };
        let fields = response.headers_mut();
        fields.insert(CACHE_STATUS, status);
        // What stands in now is not what the next one should have.
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }
}

fn always(answer: &StaticAnswer) -> Option<Response<Bytes>> {
    let mut response = Response::new(Bytes::copy_from_slice(answer.body.as_bytes()));
    *response.status_mut() = StatusCode::from_u16(answer.status).ok()?;
    response.headers_mut().insert(CONTENT_TYPE, answer.content_type.clone());
    Some(response)
}
