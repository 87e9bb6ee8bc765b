//! The head that goes to a cell, made once for all attempts out of the client's head.

use std::net::IpAddr;

use cofferdam_model::headers;
use cofferdam_proxy::fields;
use cofferdam_proxy::upstream::Head;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

use super::identify;
use super::reject::{Reason, Rejection};
use crate::snapshot::Snapshot;

/// A head ready for a cell, but for what differs between attempts.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    target: PathAndQuery,
    pub(super) fields: HeaderMap,
}

impl Outgoing {
    /// Takes hop-by-hop and internal fields away first, so that nothing of ours can be nominated away or forged.
    pub(super) fn new(head: Parts, snapshot: &Snapshot, peer: IpAddr) -> Result<Self, Rejection> {
        let mut map = head.headers;
        if fields::via_has(&map, &snapshot.via) {
            return Err(Rejection::new(Reason::Loop, "this fleet is in the request's Via"));
        }
        fields::strip_hop_by_hop(&mut map);
        fields::strip_where(&mut map, headers::is_internal);
        identify::strip_untrusted(snapshot, peer, &mut map);
        fields::set_forwarded(&mut map, peer, identify::is_trusted(snapshot, peer));
        fields::add_via(&mut map, head.version, &snapshot.via);
        let target = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { method: head.method, target, fields: map })
    }

    /// The head as the upstream connection takes it.
    pub(super) fn head(&self) -> Head<'_> {
        Head { method: &self.method, target: &self.target, fields: &self.fields }
    }
}
