//! Every way in which the router itself says no: a closed reason, the right status, and when to come back.
//!
//! 429: *you* are over your limit. 503: *we* have no room. 4xx: the request cannot be served as it is. 502 and 504:
//! a cell failed it.

use std::time::Duration;

use cofferdam_limits::{Refusal, Wait};
use cofferdam_model::{CellReason, CellRefusal, Level, Limited, RefusalCause};
use cofferdam_proxy::problem::Problem;
use cofferdam_telemetry::refusals::Side;
use http::StatusCode;

use super::limit_fields::Shown;
use super::outcome::Outcome;

/// Why the router refuses a request or cannot answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Host, target or Via make no request of it.
    BadRequest,
    /// CONNECT and TRACE.
    Method,
    /// The target is longer than it may be.
    TargetTooLong,
    /// The head has more fields or bytes than it may.
    HeadTooLarge,
    /// The head was not whole in its time.
    HeadSlow,
    /// The request has been here before.
    Loop,
    /// The body is larger than it may be.
    BodyTooLarge,
    /// The client's own body broke off.
    BodyBroken,
    /// The client sent nothing of its body for too long.
    BodyIdle,
    /// No source names a tenant.
    NoTenant,
    /// What should be a tenant's id is none.
    BadTenant,
    /// Two sources that must agree name different tenants.
    TenantsDiffer,
    /// The fleet does not know the tenant and has no plan for unknown ones.
    UnknownTenant,
    /// A fleet-wide limit.
    Limit(Level, Limited),
    /// An agent refused, and there was nowhere else to go.
    Cell(CellRefusal),
    /// The tenant is being moved to other cells, and the request waited for that in vain, or there was no room to wait.
    Moving,
    /// All cells of the shard are so full that this class of requests is not sent.
    Shed,
    /// No cell of the shard could be reached.
    PairDown,
    /// The cell was lost while it had the request.
    Lost,
    /// The cell answered with something that is not HTTP.
    Malformed,
    /// The deadline passed.
    Deadline,
    /// A fault of this program.
    Internal,
}

/// A refusal on its way to the client.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) reason: Reason,
    detail: String,
    /// When to come back; `None` where coming back would not help.
    retry_after: Option<Duration>,
    /// What the limits that refused are called in the answer's RateLimit-Policy.
    violated: Vec<Box<str>>,
}

impl Reason {
    /// The labels `level` and `reason` in metrics.
    pub(crate) fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Limit(level, limited) => (level.as_str(), limited.as_str()),
            Self::Cell(CellRefusal { reason, cause: RefusalCause::Full }) => ("cell", reason.as_str()),
            Self::Cell(refusal) => {
                let word = of_cell(refusal);
                ("cell", word.strip_prefix("cell_").unwrap_or(word))
            }
            Self::Moving => ("tenant", "moving"),
            Self::Shed | Self::PairDown | Self::Lost | Self::Malformed | Self::Deadline => {
                ("cell", self.word())
            }
            _ => ("request", self.word()),
        }
    }

    /// The last part of the problem's type.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Method => "method",
            Self::TargetTooLong => "target_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::HeadSlow => "head_slow",
            Self::Loop => "loop",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyBroken => "body_broken",
            Self::BodyIdle => "body_idle",
            Self::NoTenant => "no_tenant",
            Self::BadTenant => "bad_tenant",
            Self::TenantsDiffer => "tenants_differ",
            Self::UnknownTenant => "unknown_tenant",
            Self::Limit(_, Limited::Store) => "store_unavailable",
            Self::Limit(Level::Tenant, Limited::Rate) => "tenant_rate",
            Self::Limit(Level::Tenant, Limited::Concurrency) => "tenant_concurrency",
            Self::Limit(Level::Tenant, Limited::Quota) => "tenant_quota",
            Self::Limit(Level::Tenant, Limited::Shape) => "tenant_shape",
            Self::Limit(Level::Fleet, Limited::Rate) => "fleet_rate",
            Self::Limit(Level::Fleet, Limited::Concurrency) => "fleet_concurrency",
            Self::Limit(Level::Fleet, Limited::Quota) => "fleet_quota",
            Self::Limit(Level::Fleet, Limited::Shape) => "fleet_shape",
            Self::Limit(Level::Route, Limited::Rate) => "route_rate",
            Self::Limit(Level::Route, Limited::Concurrency) => "route_concurrency",
            Self::Limit(Level::Route, Limited::Quota) => "route_quota",
            Self::Limit(Level::Route, Limited::Shape) => "route_shape",
            Self::Cell(refusal) => of_cell(refusal),
            Self::Moving => "tenant_moving",
            Self::Shed => "shed",
            Self::PairDown => "pair_down",
            Self::Lost => "cell_lost",
            Self::Malformed => "cell_malformed",
            Self::Deadline => "deadline",
            Self::Internal => "internal",
        }
    }

    fn status_and_title(self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest => {
                (StatusCode::BAD_REQUEST, "The request is not valid HTTP for an intermediary")
            }
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed here"),
            Self::TargetTooLong => (StatusCode::URI_TOO_LONG, "The target is too long"),
            Self::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large"),
            Self::HeadSlow => (StatusCode::REQUEST_TIMEOUT, "The head was not whole in time"),
            Self::Loop => (StatusCode::LOOP_DETECTED, "The request has passed here before"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            Self::BodyBroken => (StatusCode::BAD_REQUEST, "The body ended early"),
            Self::BodyIdle => (StatusCode::REQUEST_TIMEOUT, "The body stood still"),
            Self::NoTenant => (StatusCode::BAD_REQUEST, "The request names no tenant"),
            Self::BadTenant => (StatusCode::BAD_REQUEST, "The tenant id is malformed"),
            Self::TenantsDiffer => (StatusCode::BAD_REQUEST, "The request names more than one tenant"),
            Self::UnknownTenant => (StatusCode::NOT_FOUND, "The tenant is unknown"),
            Self::Limit(level, limited) => limit(level, limited),
            Self::Cell(refusal) => cell(refusal),
            Self::Moving => (StatusCode::SERVICE_UNAVAILABLE, "You are being moved to other cells"),
            Self::Shed => (StatusCode::SERVICE_UNAVAILABLE, "Your cells have no room for this class"),
            Self::PairDown => (StatusCode::SERVICE_UNAVAILABLE, "None of your cells can be reached"),
            Self::Lost => (StatusCode::BAD_GATEWAY, "The cell was lost during the request"),
            Self::Malformed => (StatusCode::BAD_GATEWAY, "The cell's answer was not valid"),
            Self::Deadline => (StatusCode::GATEWAY_TIMEOUT, "The cell took too long"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "The request met a fault of the router"),
        }
    }

    /// Why no request was made of a head, by the status of the parser's own answer.
    pub(super) fn of_unserved(status: StatusCode) -> Self {
        match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Self::HeadTooLarge,
            StatusCode::URI_TOO_LONG => Self::TargetTooLong,
            StatusCode::REQUEST_TIMEOUT => Self::HeadSlow,
            _ => Self::BadRequest,
        }
    }

    /// Whether it is a limit or a full cell that says no, and not something about the request.
    pub(super) fn is_want_of_room(self) -> bool {
        match self {
            Self::Cell(refusal) => refusal.cause != RefusalCause::BackendUnreachable,
            _ => matches!(self, Self::Limit(..) | Self::Shed),
        }
    }

    /// Whose doing it is, for the log.
    pub(super) fn side(self) -> Side {
        match (self.outcome(), self.labels().0) {
            (Outcome::Failed, _) => Side::Failure,
            (_, "request") => Side::Request,
            _ => Side::Room,
        }
    }

    /// Whether it depends on the route what was refused: its own limit, its cap, or what it needs.
    pub(super) fn concerns_route(self) -> bool {
        match self {
            Self::Limit(level, limited) => level == Level::Route || limited == Limited::Shape,
            Self::Cell(refusal) => refusal.reason == CellReason::Class,
            _ => false,
        }
    }

    /// The outcome that a request refused for this reason counts as.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::PairDown | Self::Lost | Self::Malformed | Self::Deadline | Self::Internal => {
                Outcome::Failed
            }
            Self::Cell(CellRefusal { cause: RefusalCause::BackendUnreachable, .. }) => Outcome::Failed,
            Self::BodyBroken => Outcome::ClientGone,
            _ => Outcome::Refused,
        }
    }
}

/// The last part of the problem's type where an agent refused.
fn of_cell(refusal: CellRefusal) -> &'static str {
    match (refusal.cause, refusal.reason) {
        (RefusalCause::Full, CellReason::Tenant) => "cell_tenant",
        (RefusalCause::Full, CellReason::Class) => "cell_class",
        (RefusalCause::Full, CellReason::Cell) => "cell_full",
        (RefusalCause::Cap, _) => "cell_cap",
        (RefusalCause::BackendUnreachable, _) => "backend_unreachable",
        (RefusalCause::BreakerOpen, CellReason::Cell) => "backend_breaker_open",
        (RefusalCause::BreakerOpen, _) => "dependency_breaker_open",
        (RefusalCause::Draining, _) => "cell_draining",
    }
}

/// The status and the title where an agent refused.
fn cell(refusal: CellRefusal) -> (StatusCode, &'static str) {
    let status = match refusal.reason {
        CellReason::Tenant => StatusCode::TOO_MANY_REQUESTS,
        CellReason::Class | CellReason::Cell => StatusCode::SERVICE_UNAVAILABLE,
    };
    let title = match (refusal.cause, refusal.reason) {
        (RefusalCause::Full, CellReason::Tenant) => "Your share of the cell is in use",
        (RefusalCause::Full, CellReason::Class) => "This class of requests is full",
        (RefusalCause::Full, CellReason::Cell) => "The cell has no room",
        (RefusalCause::Cap, _) => "A cap of the route or its dependency is reached",
        (RefusalCause::BackendUnreachable, _) => "The cell's backend takes no connection",
        (RefusalCause::BreakerOpen, CellReason::Cell) => "The cell's backend is failing and left alone",
        (RefusalCause::BreakerOpen, _) => "A dependency of the route is failing and left alone",
        (RefusalCause::Draining, _) => "The cell drains",
    };
    (status, title)
}

/// What a tenant has used up of its own is 429; what all tenants share, and what we cannot look up, is our lack of room.
fn limit(level: Level, limited: Limited) -> (StatusCode, &'static str) {
    let (own, ours) = (StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE);
    match (level, limited) {
        (_, Limited::Store) => (ours, "The store of the limits is away"),
        (_, Limited::Shape) => (ours, "The line of this route is full"),
        (Level::Fleet, _) => (ours, "The whole fleet is at its ceiling"),
        (Level::Tenant, Limited::Rate) => (own, "Too fast for your plan"),
        (Level::Tenant, Limited::Concurrency) => (own, "Too many at once for your plan"),
        (Level::Tenant, Limited::Quota) => (own, "Your plan's quota is used up"),
        (Level::Route, Limited::Concurrency) => (own, "Too many at once on this route"),
        (Level::Route, _) => (own, "Too fast on this route"),
    }
}

impl Rejection {
    /// A rejection; our own lack of room is worth another try after a second.
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let (status, _) = reason.status_and_title();
        let ours = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let retry_after = ours.then_some(Duration::from_secs(1));
        Self { reason, detail: detail.into(), retry_after, violated: Vec::new() }
    }

    /// A fleet-wide limit refused. `jitter` is the share of the wait, a second at least, that may be added to it at random.
    pub(crate) fn limit(refusal: &Refusal, jitter: f64) -> Self {
        let reason = Reason::Limit(refusal.level, refusal.limited);
        let (level, limited) = (refusal.level, refusal.limited);
        let (detail, wait) = match refusal.wait {
            _ if limited == Limited::Store => {
                ("nothing can be admitted without it".to_owned(), Some(Duration::from_secs(1)))
            }
            Wait::Until(wait) => {
                (format!("the {level}'s {limited} limit admits this in {} ms", wait.as_millis()), Some(wait))
            }
            Wait::Unknown => {
                (format!("the {level}'s {limited} limit is in use"), Some(Duration::from_secs(1)))
            }
            Wait::Never => (format!("the request costs more than the {level}'s {limited} limit holds"), None),
        };
        Self { reason, detail, retry_after: wait.map(|wait| spread(wait, jitter)), violated: Vec::new() }
    }

    /// An agent refused, and said when to come back.
    pub(super) fn of_cell(refusal: CellRefusal, wait: Option<Duration>) -> Self {
        let why = match (refusal.cause, refusal.reason) {
            (RefusalCause::Full, reason) => format!("its {reason} is full"),
            (RefusalCause::Cap, _) => "a cap of the route or its dependency is reached".to_owned(),
            (RefusalCause::BackendUnreachable, _) => "its backend takes no connection".to_owned(),
            (RefusalCause::BreakerOpen, CellReason::Cell) => "the breaker of its backend is open".to_owned(),
            (RefusalCause::BreakerOpen, _) => "the breaker of a dependency is open".to_owned(),
            (RefusalCause::Draining, _) => "it drains".to_owned(),
        };
        let detail = format!("the cell refused: {why}");
        let rejection = Self::new(Reason::Cell(refusal), detail);
        match wait {
            Some(wait) => rejection.retry_after(wait),
            None => rejection,
        }
    }

    /// Names the limits that refused.
    pub(crate) fn violates(mut self, refusal: &Refusal, shown: Shown<'_>) -> Self {
        let quota = |at| shown.plan.quotas.get(at).cloned();
        self.violated = match (refusal.level, refusal.limited) {
            (_, Limited::Store) => Vec::new(),
            (_, Limited::Quota) => shown.exceeded(&refusal.standing).filter_map(quota).collect(),
            (_, Limited::Concurrency) => vec!["conc".into()],
            (_, Limited::Shape) => vec!["shape".into()],
            (Level::Route, Limited::Rate) => vec!["route".into()],
            (_, Limited::Rate) => vec!["rate".into()],
        };
        self
    }

    /// Another wait than the usual one, such as an agent's own.
    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The answer to the client.
    pub(crate) fn problem(self) -> Problem {
        let (status, title) = self.reason.status_and_title();
        let mut problem =
            Problem::new(status, format!("urn:cofferdam:{}", self.reason.word()), title).detail(self.detail);
        if !self.violated.is_empty() {
            let names: Vec<_> = self.violated.iter().map(|name| &**name).collect();
            problem = problem.member("violated-policies", names);
        }
        match self.retry_after {
            Some(wait) => problem.retry_after(whole_seconds(wait)),
            None => problem,
        }
    }
}

/// A wait in whole seconds, rounded up: a request sent then passes.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The wait and a random number of seconds more, so that the refused do not come back together. What is added is whole
/// seconds, like the header that says so: less would be rounded away.
fn spread(wait: Duration, jitter: f64) -> Duration {
    if jitter <= 0.0 {
        return wait;
    }
    let most = (wait.as_secs_f64() * jitter).ceil().max(1.0) as u64;
    Duration::from_secs(whole_seconds(wait).saturating_add(rand::random_range(0..=most)))
}

#[cfg(test)]
mod tests;
