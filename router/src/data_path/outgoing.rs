//! The head that goes to a cell, made once for all attempts out of the client's head. The hop to the agent
//! (`cofferdam_model::Hop`) is written as lines: what a class and a snapshot say is ready, the rest is added.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use cofferdam_fleet::Route;
use cofferdam_model::{Hop, Resort, headers};
use cofferdam_proxy::fields;
use cofferdam_proxy::forwarding::{self, Came, Scheme};
use cofferdam_proxy::grpc::Call;
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::trace;
use cofferdam_proxy::upstream::Head;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

use super::identify::{self, Identified};
use super::reject::{Reason, Rejection};
use crate::snapshot::Snapshot;

/// Room for the lines of nearly every request.
const ROOM: usize = 512;

/// A head ready for a cell.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    call: Call,
    /// How long the answer's head may take from the request's arrival on.
    patience: Duration,
    target: PathAndQuery,
    fields: HeaderMap,
    lines: FieldLines,
    /// How many bytes of the lines are the same for all attempts.
    n_same: usize,
    /// Whether WebSocket is asked for.
    pub(super) upgrade: bool,
}

impl Outgoing {
    /// Takes hop-by-hop fields away first, so that nothing of ours can be nominated away. Internal ones, and those that are said
    /// anew, are passed over as the head is written, so that nothing of ours can be forged.
    pub(super) fn new(
        head: Parts,
        call: Call,
        identified: &Identified<'_>,
        snapshot: &Snapshot,
        peer: IpAddr,
    ) -> Result<Self, Rejection> {
        let mut map = head.headers;
        if snapshot.via.is_in(&map) {
            return Err(Rejection::new(Reason::Loop, "this fleet is in the request's Via"));
        }
        let is_trusted = identify::strip_untrusted(snapshot, peer, &mut map);
        let patience = patience(&map, identified, is_trusted)?;
        let takes_trailers = fields::strip_request(&mut map, headers::is_internal);
        trace::settle(&mut map);
        let mut lines = FieldLines::with_capacity(ROOM);
        if takes_trailers || call.is_grpc() {
            fields::take_trailers(&mut lines);
        }
        // There is no TLS here: who ends it in front says so, and is trusted.
        let came = Came { peer, trusted: is_trusted, scheme: Scheme::Http };
        forwarding::say(&mut map, &mut lines, came, &snapshot.edge.forwarding);
        snapshot.via.add_line(&map, &mut lines, head.version);
        lines.extend(&snapshot.hops[identified.route.class.get()]);
        lines.push_text(&headers::TENANT, identified.tenant.as_bytes());
        let target = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let n_same = lines.len();
        Ok(Self { method: head.method, call, patience, target, fields: map, lines, n_same, upgrade: false })
    }

    /// When the caller's patience ends, for a request that arrived at `arrived`.
    pub(super) fn deadline(&self, arrived: Instant) -> Instant {
        self.call.bound((arrived + self.patience).into()).into_std()
    }

    /// Whether an agent may have something that stands in for the answer: for what changes nothing, on a route with a fallback.
    pub(super) fn may_fall_back(&self, route: &Route) -> bool {
        route.fallback.is_some() && matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The head of one attempt, which has `remaining` until the caller's deadline.
    pub(super) fn attempt(&mut self, attempt: u8, resort: Resort, remaining: Duration) -> Head<'_> {
        self.lines.truncate(self.n_same);
        self.lines.push_number(&headers::ATTEMPT, attempt.into());
        if let Some(word) = resort.as_str() {
            self.lines.push_text(&headers::RESORT, word);
        }
        self.lines.push_number(&headers::REMAINING_MS, remaining.as_millis() as u64);
        self.call.say_timeout(&mut self.fields, &mut self.lines);
        Head {
            method: &self.method,
            target: &self.target,
            fields: &self.fields,
            withheld: |name| headers::is_internal(name) || forwarding::is_said_anew(name),
            lines: &self.lines,
            upgrade: self.upgrade,
        }
    }
}

/// The smaller of the route's time and what a trusted peer says is left of the caller's. From anybody else it is an
/// internal field like the others, and says nothing.
fn patience(
    fields: &HeaderMap,
    identified: &Identified<'_>,
    is_trusted: bool,
) -> Result<Duration, Rejection> {
    let most = identified.route.timeout;
    if !is_trusted {
        return Ok(most);
    }
    match Hop::read_remaining(fields) {
        Ok(said) => Ok(said.map_or(most, |said| said.min(most))),
        Err(error) => Err(Rejection::new(Reason::BadRequest, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_fleet::Fleet;
    use cofferdam_model::TenantId;
    use http::{HeaderName, HeaderValue, Request};

    use super::*;
    use crate::cells::Directory;

    /// What an agent reads of the lines.
    fn read(lines: &FieldLines) -> HeaderMap {
        let text = std::str::from_utf8(lines.as_bytes()).unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        text.lines().map(field).collect()
    }

    #[test]
    fn every_attempts_lines_are_one_whole_hop() {
        let text =
            "fleet: f\nrevision: 7\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\n";
        let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
        let snapshot = Snapshot::build(fleet, &Directory::default()).unwrap();
        let tenant = TenantId::parse(b"acme", &snapshot.fleet.tenant.alphabet).unwrap();
        let route = &snapshot.fleet.routes.as_slice()[0];
        let identified = Identified {
            tenant,
            plan: &snapshot.plans[0],
            route,
            on_route: &snapshot.routes[0],
            marked: None,
        };
        let forged = Request::get("/").header("host", "a").header("cofferdam-attempt", "9").body(()).unwrap();
        let peer = IpAddr::from([10, 0, 0, 7]);
        let mut outgoing =
            Outgoing::new(forged.into_parts().0, Call::Plain, &identified, &snapshot, peer).unwrap();
        for (attempt, resort) in
            [(1, Resort::Another), (1, Resort::Shed), (2, Resort::Last), (3, Resort::Another)]
        {
            let head = outgoing.attempt(attempt, resort, Duration::from_micros(1_234_567));
            assert!((head.withheld)(&headers::ATTEMPT));
            let hop = Hop::read(&read(head.lines), &snapshot.fleet.tenant.alphabet).unwrap();
            let expected = Hop {
                tenant,
                class: snapshot.fleet.cell.classes[0].name.clone(),
                attempt,
                resort,
                remaining: Duration::from_millis(1234),
                revision: snapshot.fleet.revision,
                digest: snapshot.placement.digest(),
            };
            assert_eq!(hop, expected);
        }
    }
}
