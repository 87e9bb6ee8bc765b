//! The answer to the client, and the end of everything that the request held: the permit and the place on a cell ride
//! in the answer's body and are given back once, at its end, its error or its drop.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_fleet::ClassIndex;
use cofferdam_limits::{Limits, Permit};
use cofferdam_model::{CellIndex, TenantId, headers};
use cofferdam_proxy::grpc;
use cofferdam_proxy::guard::{End, Guarded, OnEnd};
use cofferdam_proxy::payload::Payload;
use cofferdam_proxy::target;
use cofferdam_proxy::tunnel::{self, TunnelEnd};
use cofferdam_proxy::upgrade;
use cofferdam_proxy::upstream::UpstreamBody;
use cofferdam_proxy::via::Via;
use http::header::ALLOW;
use http::{HeaderMap, Response};

use super::admit::{Admitted, NotAdmitted};
use super::forward::{Answer, Forwarded};
use super::identify::Identified;
use super::limit_fields::{is_limit_field, stays};
use super::metrics::Metrics;
use super::outcome::Outcome;
use super::placement_field;
use super::published;
use super::reject::{Reason, Rejection};
use super::view::View;
use crate::cells::{OnCell, Whereabouts};
use crate::door::Inside;
use crate::recent::{Event, EventKind};
use crate::top::Counters;

/// The body of every answer.
pub(crate) type Reply = Guarded<Payload, InFlight>;

/// Everything that a request holds until its answer's body has ended. It is in a box, since an answer is moved a dozen times
/// on its way out.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Option<Box<Held>>);

#[derive(Debug)]
struct Held {
    /// The permit, and whether a backend may have seen the request.
    permit: Option<(Permit, bool)>,
    /// Whose request is on which cell, and where that is for it.
    on_cell: Option<(OnCell, CellIndex, Whereabouts, TenantId)>,
    /// The place inside, of whoever was let in.
    _inside: Option<Inside>,
    view: Arc<View>,
    class: ClassIndex,
    arrived: Instant,
    outcome: Outcome,
    is_grpc: bool,
    /// Whether the backend's word on what the request cost is taken.
    settles: bool,
}

/// A request that has no answer yet. Dropping it means that its client went away, or that it met a fault of ours.
#[derive(Debug)]
pub(super) struct Waiting(InFlight);

/// What every answer of one request is made with.
#[derive(Clone, Copy)]
pub(super) struct Closing<'a> {
    pub(super) view: &'a Arc<View>,
    pub(super) metrics: &'a Metrics,
    pub(super) top: &'a Counters,
    pub(super) arrived: Instant,
    pub(super) is_grpc: bool,
}

/// The answer to a request that panicked, and holds nothing any more.
pub(super) fn panicked(metrics: &Metrics, is_grpc: bool) -> Response<Reply> {
    metrics.refused(Reason::Internal);
    told(Rejection::new(Reason::Internal, "it was logged"), is_grpc)
        .map(|bytes| Guarded::new(Payload::from(bytes), InFlight::default()))
}

impl Closing<'_> {
    /// `OPTIONS *` asks about the router itself.
    pub(super) fn about_itself(self) -> Response<Reply> {
        let mut response = Response::new(Guarded::new(Payload::default(), InFlight::default()));
        response.headers_mut().insert(ALLOW, target::ALLOWED);
        response
    }

    /// The answer for a request that was refused before it had a tenant, and so holds nothing.
    pub(super) fn reject(self, rejection: Rejection) -> Response<Reply> {
        self.own_answer(rejection, None, InFlight::default())
    }

    /// The answer for a request whose tenant is known, and that was refused before its limits were asked.
    pub(super) fn turn_away(
        self,
        rejection: Rejection,
        identified: &Identified<'_>,
        limits: &Limits,
    ) -> Response<Reply> {
        self.record(identified, &rejection, None);
        let held = self.hold(identified.route.class, None, rejection.reason.outcome());
        let of = Some((&identified.tenant, identified.route.class));
        let mut response = self.own_answer(rejection, of, held);
        self.show(identified, limits, &mut response);
        response
    }

    /// Shows where the tenant stands, whom nobody asks for anything.
    fn show<B>(self, identified: &Identified<'_>, limits: &Limits, response: &mut Response<B>) {
        let standing = identified.demand(|demand| limits.standing(demand));
        identified.shown().set(response.headers_mut(), &standing, None);
        placement_field::set(response.headers_mut(), &identified.tenant, self.view);
    }

    /// The answer to a tenant that asks for its own limits: it counts nothing.
    pub(super) fn publish(self, identified: &Identified<'_>, limits: &Limits) -> Response<Reply> {
        let mut response = published::answer(identified, self.view)
            .map(|bytes| Guarded::new(Payload::from(bytes), InFlight::default()));
        self.show(identified, limits, &mut response);
        response
    }

    /// Records why a tenant's request has no answer of a cell's; `cell` is the one that was tried last.
    fn record(self, identified: &Identified<'_>, rejection: &Rejection, cell: Option<CellIndex>) {
        let (level, reason) = rejection.reason.labels();
        let Identified { tenant, route, .. } = identified;
        let (kind, class) = (EventKind::Answer, route.class);
        let route = rejection.reason.concerns_route().then_some(*route);
        let event = Event { kind, level, reason, status: 0, class, cell, route, took: None };
        self.view.top.record.note(tenant, &self.view.snapshot, event, Instant::now());
    }

    /// Counts the request as given up by its client, unless what is returned is told that there is an answer.
    pub(super) fn waits(self, class: ClassIndex, inside: Inside) -> Waiting {
        Waiting(self.hold(class, Some(inside), Outcome::ClientGone))
    }

    /// The answer for a request that its limits refused.
    pub(super) fn refuse(self, refused: NotAdmitted<'_>) -> Response<Reply> {
        let NotAdmitted { identified, refusal } = refused;
        self.top.refused(&identified.tenant, self.arrived);
        let jitter = self.view.snapshot.fleet.limits.jitter.as_f64();
        let shown = identified.shown();
        let rejection = Rejection::limit(&refusal, jitter).violates(&refusal, shown);
        self.record(&identified, &rejection, None);
        let held = self.hold(identified.route.class, None, rejection.reason.outcome());
        let of = Some((&identified.tenant, identified.route.class));
        let mut response = self.own_answer(rejection, of, held);
        shown.set(response.headers_mut(), &refusal.standing, Some(&refusal));
        placement_field::set(response.headers_mut(), &identified.tenant, self.view);
        response
    }

    /// The answer for a request that has been to its cells.
    pub(super) fn release(self, forwarded: Forwarded<'_>, waiting: Waiting) -> Response<Reply> {
        let Forwarded { admitted, reached, answer, last } = forwarded;
        if let Err(rejection) = &answer {
            self.record(&admitted.identified, rejection, last);
        }
        let Admitted { identified, permit, .. } = *admitted;
        let (shown, standing) = (identified.shown(), permit.standing().clone());
        let (Identified { tenant, route, .. }, permit) = (identified, (permit, reached));
        let mut held = waiting.over();
        let mut response = match answer {
            Ok(Answer { response, on_cell, cell, whereabouts }) => {
                let on_cell = Some((on_cell, cell, whereabouts, tenant));
                held.takes(permit, on_cell, self.outcome(&response));
                if route.settle {
                    held.settle(response.headers());
                }
                let are_off = shown.plan.is_off;
                let response = relay(response, &self.view.snapshot.via, are_off);
                match tunnel::is_switch(&response) {
                    true => self.switch(response, held),
                    false => response.map(|body| Guarded::new(Payload::Upstream(body, stays(are_off)), held)),
                }
            }
            Err(rejection) => {
                if rejection.reason.is_want_of_room() {
                    self.top.refused(&tenant, self.arrived);
                }
                held.takes(permit, None, rejection.reason.outcome());
                self.own_answer(rejection, Some((&tenant, route.class)), held)
            }
        };
        shown.set(response.headers_mut(), &standing, None);
        placement_field::set(response.headers_mut(), &tenant, self.view);
        response
    }

    /// The answer behind which a tunnel begins. What the request holds is held until that ends; how long it took is how long
    /// the answer took.
    fn switch(self, response: Response<UpstreamBody>, held: InFlight) -> Response<Reply> {
        let took = self.arrived.elapsed();
        let response = tunnel::answer(response, &self.metrics.tunnels, move |end| {
            if let Some(held) = held.0 {
                if end == TunnelEnd::UpstreamLost {
                    held.note_loss();
                }
                held.end_after(Outcome::of_tunnel(end), took);
            }
        });
        response.map(|body| Guarded::new(body, InFlight::default()))
    }

    /// A call's answer that is a head alone has its status there.
    fn outcome(self, response: &Response<UpstreamBody>) -> Outcome {
        let status = self.is_grpc.then(|| response.headers().get(grpc::STATUS)).flatten();
        match status {
            Some(status) => Outcome::of_grpc(status.as_bytes()),
            None => Outcome::of_status(response.status()),
        }
    }

    fn hold(self, class: ClassIndex, inside: Option<Inside>, outcome: Outcome) -> InFlight {
        let Self { view, arrived, is_grpc, .. } = self;
        let (permit, on_cell, view, settles) = (None, None, Arc::clone(view), false);
        InFlight(Some(Box::new(Held {
            permit,
            on_cell,
            _inside: inside,
            view,
            class,
            arrived,
            outcome,
            is_grpc,
            settles,
        })))
    }

    fn own_answer(
        self,
        rejection: Rejection,
        of: Option<(&TenantId, ClassIndex)>,
        in_flight: InFlight,
    ) -> Response<Reply> {
        self.metrics.refused(rejection.reason);
        let classes = &self.view.snapshot.fleet.cell.classes;
        let of = of.map(|(tenant, class)| (tenant, &classes[class.get()].name));
        self.top.refusals.add(rejection.reason.word(), rejection.reason.side(), of);
        tracing::debug!(reason = ?rejection.reason, "request refused");
        told(rejection, self.is_grpc).map(|bytes| Guarded::new(Payload::from(bytes), in_flight))
    }
}

/// A rejection as its client is told of it.
fn told(rejection: Rejection, is_grpc: bool) -> Response<Bytes> {
    let problem = rejection.problem();
    if is_grpc { grpc::refusal(problem) } else { problem.into_response() }
}

/// A cell's answer as the client may see it, where limits `are_off` or not.
fn relay(mut response: Response<UpstreamBody>, via: &Via, are_off: bool) -> Response<UpstreamBody> {
    let (version, status) = (response.version(), response.status());
    let map = response.headers_mut();
    upgrade::strip_answer(status, map, |name| headers::is_internal(name) || !are_off && is_limit_field(name));
    via.add(map, version);
    response
}

impl InFlight {
    /// There is an answer, which makes `outcome` of the request.
    fn takes(
        &mut self,
        permit: (Permit, bool),
        on_cell: Option<(OnCell, CellIndex, Whereabouts, TenantId)>,
        outcome: Outcome,
    ) {
        if let Some(held) = &mut self.0 {
            (held.permit, held.on_cell, held.outcome) = (Some(permit), on_cell, outcome);
        }
    }

    /// Takes the backend's word on what the request cost, from here and from what comes behind the body.
    fn settle(&mut self, fields: &HeaderMap) {
        if let Some(held) = &mut self.0 {
            held.settles = true;
            held.settle(fields);
        }
    }
}

impl OnEnd for InFlight {
    fn on_end(self, end: End) {
        let Some(held) = self.0 else { return };
        // Whether our own words were read, which HEAD asks not to be sent, changes nothing about what became of it.
        let outcome = if held.on_cell.is_some() { held.outcome.after(end) } else { held.outcome };
        // An answer that was silent for too long failed as well, and its cell may be as well as ever.
        if end == End::Failed && held.arrived.elapsed() < held.view.stream_idle {
            held.note_loss();
        }
        if end == End::Failed {
            held.note_late("cell", "broke_off");
        }
        held.end(outcome);
    }

    /// A call's answer has its status here, unless it is a head alone; and what it cost, where that was not known before.
    /// No client hears of that.
    fn on_trailers(&mut self, trailers: &mut HeaderMap) {
        if let Some(held) = &mut self.0 {
            if let Some(status) = trailers.get(grpc::STATUS).filter(|_| held.is_grpc) {
                held.outcome = Outcome::of_grpc(status.as_bytes());
                if held.outcome == Outcome::ServerError {
                    held.note_late("backend", "grpc_error");
                }
            }
            if held.settles {
                held.settle(trailers);
            }
        }
        trailers.remove(headers::COST);
    }
}

impl Held {
    /// What is no number says nothing.
    fn settle(&mut self, fields: &HeaderMap) {
        let said = fields.get(headers::COST).and_then(|cost| cost.to_str().ok()?.parse().ok());
        if let (Some(cost), Some((permit, _))) = (said, &mut self.permit) {
            permit.settle(cost);
        }
    }

    /// The cell was lost before its answer was whole.
    fn note_loss(&self) {
        if let Some((_, cell, whereabouts, tenant)) = &self.on_cell {
            self.view.note_loss(tenant, *cell, *whereabouts, self.arrived);
        }
    }

    /// Records that the answer failed behind its head.
    fn note_late(&self, level: &'static str, reason: &'static str) {
        let Some((_, cell, _, tenant)) = &self.on_cell else { return };
        let (kind, class, cell) = (EventKind::Late, self.class, Some(*cell));
        let event = Event { kind, level, reason, status: 0, class, cell, route: None, took: None };
        self.view.top.record.note(tenant, &self.view.snapshot, event, Instant::now());
    }

    /// In its box: to move what is held costs more than to give it back.
    fn end(self: Box<Self>, outcome: Outcome) {
        let took = self.arrived.elapsed();
        self.end_after(outcome, took);
    }

    fn end_after(mut self: Box<Self>, outcome: Outcome, took: Duration) {
        let cell = self.on_cell.as_ref().map(|(_, cell, ..)| *cell);
        self.view.counters.ended(self.class, cell, outcome, took);
        if let Some((permit, reached)) = &mut self.permit {
            permit.end(outcome.for_permit(*reached));
        }
    }
}

impl Waiting {
    /// There is an answer, and what is held is the answer's.
    fn over(mut self) -> InFlight {
        mem::take(&mut self.0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(held) = self.0.0.take() {
            let outcome = if thread::panicking() { Reason::Internal.outcome() } else { held.outcome };
            held.end(outcome);
        }
    }
}

#[cfg(test)]
mod tests;
