//! The data path: the journey of a request, on one screen.
//!
//! ```text
//! request -> identify -> admit -> place -> choose -> forward -> release
//! ```
//!
//! Each stage returns the value that the next one demands, so no stage can be skipped and none is visited twice. What
//! a request holds rides in the body of its answer. No probe, no admin question and no metric ever passes here.

mod admit;
mod choose;
mod detour;
mod forward;
mod identify;
mod limit_fields;
mod metrics;
mod outcome;
mod outgoing;
mod place;
mod placement_field;
mod published;
mod recorded;
mod reject;
mod release;
mod retry;
mod said;
mod view;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_limits::Limits;
use cofferdam_model::headers;
use cofferdam_proxy::census::{Census, Counted};
use cofferdam_proxy::grpc::{self, Call};
use cofferdam_proxy::problem::Problem;
use cofferdam_proxy::replay::{BodyLimits, ReplayBody};
use cofferdam_proxy::serve;
use cofferdam_proxy::target::{self, Target, TargetError};
use cofferdam_proxy::trailers::Withheld;
use cofferdam_proxy::upgrade;
use futures_util::FutureExt;
use http::header::ALLOW;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use self::detour::{Detour, enter};
use self::identify::Identified;
pub(crate) use self::metrics::Metrics;
use self::outgoing::Outgoing;
use self::reject::{Reason, Rejection};
use self::release::{Closing, Reply};
use self::view::{CachedView, View};
use crate::door::{Door, Inside};
use crate::overrides::Overrides;
use crate::settings::Settings;
use crate::snapshot::Snapshot;
use crate::top::Counters;

/// One worker's data path.
#[derive(Debug)]
pub(crate) struct DataPath {
    view: Arc<CachedView>,
    door: Arc<Door>,
    limits: Limits,
    metrics: Metrics,
    census: Census,
    top: Arc<Counters>,
    body: BodyLimits,
}

/// A request as it sets out.
struct Traveller<'v> {
    closing: Closing<'v>,
    call: Call,
    body: ReplayBody,
    identified: Identified<'v>,
    inside: Inside,
    outgoing: Outgoing,
}

/// What becomes of a request that does not set out.
enum Stop {
    /// Its answer.
    Answered(Box<Response<Reply>>),
    /// It waits, or looks anew.
    Again(Box<Detour>),
}

impl From<Response<Reply>> for Stop {
    fn from(answer: Response<Reply>) -> Self {
        Self::Answered(answer.into())
    }
}

impl DataPath {
    /// A data path for one worker, over what all workers share.
    pub(crate) fn new(
        overrides: Arc<Overrides>,
        door: Arc<Door>,
        limits: Limits,
        metrics: Metrics,
        census: Census,
        top: Arc<Counters>,
        settings: &Settings,
    ) -> Self {
        let view = Arc::new(CachedView::new(overrides, metrics.clone(), Arc::clone(&top), settings.upstream));
        Self { view, door, limits, metrics, census, top, body: settings.body }
    }

    /// The journey. Who is sent round sets out anew, however often.
    async fn journey(
        &self,
        peer: SocketAddr,
        mut request: Request<Incoming>,
        span: Span,
        arrived: Instant,
    ) -> Response<Reply> {
        loop {
            let view = &self.view.current();
            let Traveller { closing, call, body, identified, inside, mut outgoing } =
                match self.set_out(view, peer, request, &span, arrived) {
                    Ok(traveller) => traveller,
                    Err(Stop::Answered(answer)) => return *answer,
                    // In a box, which keeps every other request's future small.
                    Err(Stop::Again(detour)) => match Box::pin(self.go_round(*detour, arrived)).await {
                        Ok(again) => {
                            request = again;
                            continue;
                        }
                        Err(refused) => return refused,
                    },
                };
            let (snapshot, class) = (&view.snapshot, identified.route.class);
            let deadline = outgoing.deadline(closing.arrived);
            let admitted = match admit::admit(identified, &self.limits, closing.arrived, deadline).await {
                Ok(admitted) => admitted,
                Err(refused) => return closing.refuse(refused),
            };
            let Identified { tenant, route, .. } = &admitted.identified;
            self.top.admitted(tenant, route.cost, closing.arrived);
            let waiting = closing.waits(class, inside);
            let admitted = match admitted.permit.delay() {
                Duration::ZERO => admitted,
                // In a box as well.
                _ => Box::pin(admit::wait_for_turn(admitted)).await,
            };
            let placed = place::place(admitted, view);
            let chosen = choose::choose(placed, snapshot);
            let exchange = forward::Exchange { view, metrics: &self.metrics, call, body: &body };
            let forwarded = forward::forward(chosen, &mut outgoing, &exchange).await;
            if let Ok(answer) = &forwarded.answer {
                span.record("cell", answer.on_cell.cell().id.as_str());
            }
            return closing.release(forwarded, waiting);
        }
    }

    /// The request, once there is nothing to wait for, or the answer where that takes too long.
    async fn go_round(&self, detour: Detour, arrived: Instant) -> Result<Request<Incoming>, Response<Reply>> {
        let Err(rejection) = detour.wait(arrived).await else { return Ok(detour.request) };
        let (view, is_grpc) = (&self.view.current(), detour.is_grpc);
        let (metrics, top) = (&self.metrics, &*self.top);
        Err(Closing { view, metrics, top, arrived, is_grpc }.reject(rejection))
    }

    /// Everything before the limits are asked, or the answer of who does not come so far. No `async fn`: that would keep the
    /// head, which it lends, to the journey's end.
    fn set_out<'v>(
        &'v self,
        view: &'v Arc<View>,
        peer: SocketAddr,
        request: Request<Incoming>,
        span: &Span,
        arrived: Instant,
    ) -> Result<Traveller<'v>, Stop> {
        let (mut head, body) = request.into_parts();
        let is_grpc = grpc::is_call(&head);
        let (metrics, top) = (&self.metrics, &*self.top);
        let closing = Closing { view, metrics, top, arrived, is_grpc };
        let snapshot = &view.snapshot;
        match settle(&mut head) {
            Ok(Target::Onward) => {}
            Ok(Target::Server) => return Err(closing.about_itself().into()),
            Err(rejection) => return Err(stray(closing, rejection).into()),
        }
        // First of all that looks at fields: what reads as ours is not there any more.
        snapshot.edge.names.clean(&mut head.headers).map_err(|error| closing.reject(bad_request(error)))?;
        let call =
            Call::read(&head, closing.arrived.into()).map_err(|error| closing.reject(bad_request(error)))?;
        let identified =
            identify::identify(view, peer.ip(), &head).map_err(|rejection| closing.reject(rejection))?;
        if published::is_asked(&head, &identified, snapshot) {
            return Err(closing.publish(&identified, &self.limits).into());
        }
        let inside = match enter(&self.door, &identified, &self.view, view) {
            Ok(inside) => inside,
            Err(outside) => return Err(Stop::Again(Detour::new(head, body, outside).into())),
        };
        if !span.is_disabled() {
            span.record("tenant", identified.tenant.as_str());
            let class = identified.route.class;
            span.record("class", snapshot.fleet.cell.classes[class.get()].name.as_str());
        }
        let named = identify::tenant_fields(snapshot);
        let withheld =
            || Withheld::new(&head.headers, headers::is_internal, named).guarded(&snapshot.edge.names);
        let body = ReplayBody::without(body, head.version, self.body, withheld);
        match self.outgoing(head, call, &body, &identified, snapshot, peer) {
            Ok(outgoing) => Ok(Traveller { closing, call, body, identified, inside, outgoing }),
            Err(rejection) => Err(closing.turn_away(rejection, &identified, &self.limits).into()),
        }
    }

    fn outgoing(
        &self,
        head: Parts,
        call: Call,
        body: &ReplayBody,
        identified: &Identified<'_>,
        snapshot: &Snapshot,
        peer: SocketAddr,
    ) -> Result<Outgoing, Rejection> {
        if body.declared().is_some_and(|declared| declared > self.body.max_bytes) {
            let most = format!("the body exceeds {} bytes", self.body.max_bytes);
            return Err(Rejection::new(Reason::BodyTooLarge, most));
        }
        let upgrade = body.is_empty() && upgrade::is_asked(&head);
        let mut outgoing = Outgoing::new(head, call, identified, snapshot, peer.ip())?;
        outgoing.upgrade = upgrade;
        Ok(outgoing)
    }
}

impl serve::Service for DataPath {
    type Body = Reply;

    /// No `async fn`: that would keep the request twice, and move the journey about. In line, it is made where it stays.
    #[inline(always)]
    fn call(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Reply>> + Send {
        let span = tracing::debug_span!(
            "request", %peer, method = %request.method(), path = request.uri().path(),
            tenant = Empty, class = Empty, cell = Empty,
        );
        let journey = self.journey(peer, request, span.clone(), Instant::now());
        let shown = |response: &Response<Reply>| {
            tracing::debug!(status = response.status().as_u16(), "request answered");
        };
        journey.inspect(shown).instrument(span)
    }

    /// Whoever is trusted with what it says of earlier hops stands for many clients.
    fn enter(&self, peer: IpAddr) -> Option<Counted> {
        self.census.enter(peer, identify::is_trusted(&self.view.current().snapshot, peer))
    }

    fn panicked(&self, is_grpc: bool) -> Option<Response<Reply>> {
        self.census.panicked();
        Some(release::panicked(&self.metrics, is_grpc))
    }

    fn unserved(&self, status: StatusCode) -> Problem {
        let reason = Reason::of_unserved(status);
        self.metrics.refused(reason);
        Rejection::new(reason, "no request was made of it").problem()
    }
}

/// The answer for a target that leads nowhere. A method that is not allowed is told which are, as by `OPTIONS *`.
fn stray(closing: Closing<'_>, rejection: Rejection) -> Response<Reply> {
    let is_method = rejection.reason == Reason::Method;
    let mut response = closing.reject(rejection);
    if is_method {
        response.headers_mut().insert(ALLOW, target::ALLOWED);
    }
    response
}

fn bad_request(error: impl ToString) -> Rejection {
    Rejection::new(Reason::BadRequest, error.to_string())
}

fn settle(head: &mut Parts) -> Result<Target, Rejection> {
    target::settle(head).map_err(|error| {
        let reason = match error {
            TargetError::Method => Reason::Method,
            TargetError::TooLong => Reason::TargetTooLong,
            TargetError::Host
            | TargetError::HostsDiffer
            | TargetError::Path
            | TargetError::Scheme
            | TargetError::Framing(_) => Reason::BadRequest,
        };
        Rejection::new(reason, error.to_string())
    })
}

#[cfg(test)]
mod tests;
