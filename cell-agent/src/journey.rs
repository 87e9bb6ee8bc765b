//! The journey of a request through its cell, on one screen:
//!
//! ```text
//! request -> Classified -> Place -> forward -> answer -> release
//! ```
//!
//! Each stage returns the value that the next one demands. The place rides in the answer's body and is given back when
//! the body ends, fails, or is dropped because the client went away; before that, dropping the journey gives it back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cofferdam_bulkhead::{Compartments, Place};
use cofferdam_model::{CallEnd, ClassName, Resort, TenantId, headers};
use cofferdam_proxy::census::{self, Census};
use cofferdam_proxy::forwarding::{self, Came, Scheme};
use cofferdam_proxy::grpc::{self, Call};
use cofferdam_proxy::guard::Guarded;
use cofferdam_proxy::payload::Payload;
use cofferdam_proxy::problem::Problem;
use cofferdam_proxy::replay::{BodyLimits, ReplayBody};
use cofferdam_proxy::serve::Service;
use cofferdam_proxy::trailers::Withheld;
use cofferdam_proxy::tunnel;
use cofferdam_proxy::upgrade;
use cofferdam_proxy::upstream::{ConnectFault, Head, Upstream, UpstreamBody};
use cofferdam_proxy::via::Via;
use cofferdam_telemetry::refusals::Counted;
use futures_util::TryFutureExt;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::time::Instant;
use tracing::Instrument;

use crate::answer::{self, AnswerBody, Release};
use crate::breakers::{Bounds, Judged};
use crate::classify::{Classified, Classifier};
use crate::drills::{Comer, Drills};
use crate::following::Timed;
use crate::forward::{self, Ask, Fault, Relay};
use crate::last_good::LastGood;
use crate::leaving::Leaving;
use crate::metrics::{Metrics, Outcome, Record};
use crate::rejection::{self, Rejection};
use crate::report::LoadField;
use crate::request::BadRequest;
use crate::rules::Rules;
use crate::settings::BackendProtocol;
use crate::stand_in::StandIn;
use crate::{gate, request};

/// The longest body that is on its way within a moment, in bytes.
const SHORT: u64 = 64 * 1024;

/// What all workers share.
pub(crate) struct Cell {
    /// The name by which this agent knows its own Via. A cell's id alone may be anybody's: a false loop is a 508.
    pub(crate) via: Via,
    pub(crate) classifier: Classifier,
    pub(crate) compartments: Compartments,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) census: Census,
    pub(crate) body: BodyLimits,
    pub(crate) backend_protocol: BackendProtocol,
    /// Where they are allowed.
    pub(crate) drills: Option<Arc<Drills>>,
    pub(crate) last_good: Arc<LastGood>,
    pub(crate) leaving: Leaving,
}

/// One worker's way through the cell: its connections to the backend and its last load report are its own.
pub(crate) struct Journey {
    pub(crate) cell: Arc<Cell>,
    pub(crate) upstream: Upstream,
    pub(crate) load: LoadField,
    /// For the log.
    pub(crate) refusals: Counted<ClassName, TenantId>,
}

/// Marks the answer to a request that a drill made late.
#[derive(Debug, Clone, Copy)]
struct Delayed;

/// What a request has in the cell.
struct Stay {
    place: Place,
    timed: Option<Timed>,
    /// Where the breakers hear at the answer's end how it went.
    judged: Option<Box<Judged>>,
}

/// A request as it sets out. It travels in a box: each future that it passes through would else have room for it twice.
struct Traveller {
    peer: SocketAddr,
    head: Parts,
    target: PathAndQuery,
    body: ReplayBody,
    call: Call,
    is: Classified,
    rules: Arc<Rules>,
}

impl Service for Journey {
    type Body = AnswerBody;

    /// No `async fn`: that would keep the request twice, and move the journey about.
    fn call(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<AnswerBody>> + Send {
        let is_grpc = grpc::is_called_by(&request);
        let refused = move |rejection: Rejection| self.refusal(rejection.problem(), is_grpc);
        self.answer(peer, request).unwrap_or_else(refused)
    }

    /// A router stands for many clients.
    fn enter(&self, peer: IpAddr) -> Option<census::Counted> {
        self.cell.census.enter(peer, self.cell.classifier.trusts(peer))
    }

    fn panicked(&self, is_grpc: bool) -> Option<Response<AnswerBody>> {
        self.cell.census.panicked();
        Some(self.refusal(rejection::panicked(), is_grpc))
    }

    fn unserved(&self, status: StatusCode) -> Problem {
        self.cell.metrics.unclassified();
        rejection::unserved(status)
    }
}

impl Journey {
    fn refusal(&self, problem: Problem, is_grpc: bool) -> Response<AnswerBody> {
        let response = if is_grpc { grpc::refusal(problem) } else { problem.into_response() };
        let mut response = response.map(|body| Guarded::new(Payload::from(body), None));
        self.tell_load(response.headers_mut(), None);
        response
    }

    /// Says how full the cell is, but for the answer's own place; and when it is cut, once the agent drains.
    fn tell_load(&self, fields: &mut HeaderMap, own: Option<&Place>) {
        self.load.write(fields, own);
        self.cell.leaving.write(fields);
    }

    async fn answer(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, Rejection> {
        let arrived = Instant::now();
        let traveller = self.classify(peer, request, arrived).inspect_err(|rejection| {
            tracing::debug!(%peer, %rejection, "turned away");
            self.cell.metrics.unclassified();
            let (reason, side) = rejection.reason();
            self.refusals.add(reason, side, None);
        })?;
        let Some(traveller) = traveller else {
            let mut answer = answer::about_itself();
            self.tell_load(answer.headers_mut(), None);
            return Ok(answer);
        };
        let record = traveller.rules.metrics(traveller.is.class).begin(arrived);
        let class = traveller.rules.class_name(traveller.is.class);
        let tenant = traveller.is.tenant;
        let span =
            tracing::debug_span!("request", %class, tenant = tenant.as_str(), attempt = traveller.is.attempt);
        if span.is_disabled() {
            return self.travel(traveller, record).await;
        }
        // Whoever looks closely pays for it: in here, the journey would have room in every request.
        Box::pin(self.travel(traveller, record).instrument(span)).await
    }

    /// What sets out; nothing where the agent itself is asked about.
    fn classify(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
        arrived: Instant,
    ) -> Result<Option<Box<Traveller>>, Rejection> {
        let (mut head, body) = request.into_parts();
        let Some(target) = request::check(&mut head, &self.cell.via)? else { return Ok(None) };
        let rules = self.cell.classifier.rules();
        // First of all that looks at fields: what reads as ours is not there any more.
        rules.edge.names.clean(&mut head.headers).map_err(BadRequest::from)?;
        let call = Call::read(&head, arrived).map_err(BadRequest::from)?;
        let mut is = self.cell.classifier.classify(&rules, peer.ip(), &head, arrived)?;
        is.deadline = call.bound(is.deadline);
        let withheld = || Withheld::new(&head.headers, headers::is_internal, []).guarded(&rules.edge.names);
        let body = ReplayBody::without(body, head.version, self.cell.body, withheld);
        Ok(Some(Box::new(Traveller { peer, head, target, body, call, is, rules })))
    }

    /// From classification to an answer. A rejection is recorded here, an answer at the end of its body.
    async fn travel(
        &self,
        traveller: Box<Traveller>,
        mut record: Record,
    ) -> Result<Response<AnswerBody>, Rejection> {
        let trusted = traveller.is.from_router;
        let stays = forward::stays(trusted);
        let stand_in = StandIn::of(&traveller.rules, &traveller.is, &traveller.head);
        let (rules, class, tenant) = (Arc::clone(&traveller.rules), traveller.is.class, traveller.is.tenant);
        match self.through_the_gate(traveller, &mut record).await {
            Ok((mut answer, Stay { place, timed, .. })) if tunnel::is_switch(&answer) => {
                // A tunnel may hold its place for hours.
                self.tell_load(answer.headers_mut(), None);
                let (status, record) = (answer.status(), record.switched());
                let release = Release { status, record, place, timed, keeping: None, judged: None };
                let tunnels = &self.cell.metrics.tunnels;
                let answer = tunnel::answer(answer, tunnels, |end| release.tunnel_ended(end));
                Ok(answer.map(|body| Guarded::new(body, None)))
            }
            Ok((mut answer, Stay { place, timed, judged })) => {
                let own = is_short(answer.body()).then_some(&place);
                self.tell_load(answer.headers_mut(), own);
                let keeping = stand_in.and_then(|it| it.keep(&self.cell.last_good, &answer)).map(Box::new);
                let release = Release { status: answer.status(), record, place, timed, keeping, judged };
                let answer = answer.map(|body| Payload::Upstream(body, stays));
                Ok(answer.map(|body| Guarded::new(body, Some(Box::new(release)))))
            }
            Err(rejection) => {
                tracing::debug!(error = &rejection as &dyn std::error::Error, "no answer of the backend's");
                if let Some(mut answer) = stand_in.and_then(|it| it.answer(&self.cell.last_good, &rejection))
                {
                    record.end(Outcome::FellBack);
                    self.tell_load(answer.headers_mut(), None);
                    return Ok(answer.map(|body| Guarded::new(Payload::from(body), None)));
                }
                record.end(rejection.outcome());
                let (reason, side) = rejection.reason();
                self.refusals.add(reason, side, Some((&tenant, rules.class_name(class))));
                Err(rejection)
            }
        }
    }

    async fn through_the_gate(
        &self,
        traveller: Box<Traveller>,
        record: &mut Record,
    ) -> Result<(Response<UpstreamBody>, Stay), Rejection> {
        let Traveller { peer, mut head, target, body, call, is, rules } = *traveller;
        if let Some(bytes) = body.declared().filter(|bytes| *bytes > self.cell.body.max_bytes) {
            return Err(Rejection::TooLarge(bytes));
        }
        let http2 = match self.cell.backend_protocol {
            BackendProtocol::Auto => call.is_grpc(),
            BackendProtocol::Http1 if call.is_grpc() => return Err(Rejection::NoGrpc),
            BackendProtocol::Http1 => false,
            BackendProtocol::Http2 => true,
        };
        let upgrade = body.is_empty() && upgrade::is_asked(&head);
        if upgrade && http2 {
            return Err(Rejection::NoWebSocket);
        }
        if is.resort == Resort::Shed {
            return Err(Rejection::Shed);
        }
        let route = rules.route(is.route);
        let passed = rules.breakers.pass(route.dependency, &is.tenant)?;
        let place = gate::enter(&self.cell.compartments, &rules, &is).await;
        let place = place.inspect_err(|refused| record.refused(&is.tenant, refused))?;
        let began = Instant::now();
        record.admitted(&is.tenant, began);
        let timed = rules.following.begin(is.class);
        let relay = Relay {
            came: Came { peer: peer.ip(), trusted: is.from_router, scheme: Scheme::Http },
            forwarding: &rules.edge.forwarding,
            now: began,
            version: head.version,
            via: &self.cell.via,
            class: rules.class_name(is.class),
            call,
        };
        let lines = forward::prepare(&mut head.headers, &is, &relay);
        let head = Head {
            method: &head.method,
            target: &target,
            fields: &head.headers,
            withheld: |name| headers::is_internal(name) || forwarding::is_said_anew(name),
            lines: &lines,
            upgrade,
        };
        let ask = Ask { head, body: &body, call, http2, deadline: is.deadline };
        let answered = self.ask(&rules, &is, ask).await;
        // What the client took to send its body is its own time.
        let whole = body.came().map_or(began, |came| came.max(began));
        let half = whole + route.timeout / 2;
        let end = match &answered {
            Ok(answer) => answer_end(answer, &body),
            Err(rejection) => rejection.call_end(Instant::now() < half),
        };
        let charge = end.charge();
        let judged = match (passed, &answered) {
            (None, _) => None,
            (Some(passed), Ok(answer)) => {
                let bounds = Bounds { half, idle: began + self.upstream.stream_idle() };
                passed.judge(answer, call.is_grpc(), bounds)
            }
            (Some(passed), Err(_)) => {
                passed.ended(charge.guard);
                None
            }
        };
        if let Some(timed) = timed.as_ref().filter(|_| charge.sample && !(answered.is_ok() && call.is_grpc()))
        {
            rules.following.answered(timed, &is.tenant, whole);
        }
        let mut answer = answered?;
        forward::clean(answer.status(), answer.headers_mut(), forward::stays(is.from_router));
        if answer.extensions_mut().remove::<Delayed>().is_some() {
            answer.headers_mut().insert(headers::DRILL, HeaderValue::from_static("latency"));
        }
        Ok((answer, Stay { place, timed, judged }))
    }

    /// Asks the backend, unless a drill strikes in its place.
    async fn ask(
        &self,
        rules: &Rules,
        is: &Classified,
        ask: Ask<'_>,
    ) -> Result<Response<UpstreamBody>, Rejection> {
        if let Some(drills) = &self.cell.drills {
            let (class, dependency) = (rules.class_name(is.class), rules.dependency(is.route));
            let comer = Comer { class, tenant: &is.tenant, dependency, deadline: is.deadline };
            let is_delayed = drills.delays(&comer);
            drills.strike(comer).await?;
            if is_delayed {
                let mut answer = forward::forward(&self.upstream, ask).await?;
                answer.extensions_mut().insert(Delayed);
                return Ok(answer);
            }
        }
        match forward::forward(&self.upstream, ask).await {
            // Which protocol is spoken to it, the caller chose.
            Err(Fault::NoConnection(fault @ ConnectFault::NotSpoken(_)))
                if self.cell.backend_protocol == BackendProtocol::Auto =>
            {
                Err(Rejection::NotSpoken(fault))
            }
            answered => Ok(answered?),
        }
    }
}

/// Whether an answer's body is over by the time that another request comes. A stream, or a download, holds its place for longer,
/// as a tunnel does.
fn is_short(body: &UpstreamBody) -> bool {
    body.size_hint().exact().is_some_and(|bytes| bytes <= SHORT)
}

/// How an attempt ended that has an answer. The time until its head tells how busy the backend is, unless it is a refusal of its
/// own, an error, which may be quick, a stream, or came before the whole request was there.
fn answer_end(answer: &Response<UpstreamBody>, request: &ReplayBody) -> CallEnd {
    let is_events =
        answer.headers().get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
    match answer.status() {
        StatusCode::TOO_MANY_REQUESTS => CallEnd::TooMany,
        status if status.is_server_error() => CallEnd::ServerError,
        _ if is_events || tunnel::is_switch(answer) || request.waits() => CallEnd::Streams,
        _ => CallEnd::Answered,
    }
}

#[cfg(test)]
mod tests;
