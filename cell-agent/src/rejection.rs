//! What the agent answers by itself: every way in which a request comes to no answer of the backend's, with its status
//! and what a router reads off it. The causes are for the log.

use cofferdam_bulkhead::Refused;
use cofferdam_model::{CallEnd, CellReason, CellRefusal, HopError, RefusalCause, headers};
use cofferdam_proxy::problem::Problem;
use cofferdam_proxy::target::{self, TargetError};
use cofferdam_proxy::upstream::ConnectFault;
use cofferdam_telemetry::refusals::Side;
use http::header::ALLOW;
use http::{HeaderValue, StatusCode};

use crate::breakers::Tripped;
use crate::drills::Struck;
use crate::forward::Fault;
use crate::metrics::Outcome;
use crate::request::BadRequest;

/// When to come back after a refusal, in seconds. Places come free much sooner; nothing shorter can be said.
const RETRY_AFTER_S: u64 = 1;

/// What a 502 says in [`headers::FAULT`] where the backend may have worked on the request.
const LOST: HeaderValue = HeaderValue::from_static("lost");

/// The same where that was on a kept connection, and a new one stands.
const STALE: HeaderValue = HeaderValue::from_static("stale");

/// Why a request has no answer of the backend's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    /// The request's form.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// No usable tenant.
    #[error(transparent)]
    Hop(#[from] HopError),
    /// The request declares a body beyond the bound.
    #[error("request body of {0} bytes is too large")]
    TooLarge(u64),
    /// A call of gRPC to a backend that is spoken to in HTTP/1.1 alone.
    #[error("backend serves no gRPC")]
    NoGrpc,
    /// A call of gRPC to a backend that turned out to speak no HTTP/2.
    #[error("backend speaks no HTTP/2")]
    NotSpoken(#[source] ConnectFault),
    /// WebSocket before a backend that is spoken to in HTTP/2: a stream changes no protocol (RFC 9113 section 8.6), and as a
    /// mere GET it would be another request.
    #[error("backend serves no WebSocket")]
    NoWebSocket,
    /// No place.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// All cells of the tenant are too full for the request's class, as its router knows, and nothing stands in for an answer.
    #[error("request is shed")]
    Shed,
    /// What the request needs is failing, and left alone.
    #[error(transparent)]
    Tripped(#[from] Tripped),
    /// A drill, in the place of a backend's own fault.
    #[error(transparent)]
    Drill(#[from] Struck),
    /// The backend, or the request's body on its way there.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Rejection {
    /// How the rejection is counted.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Request(_)
            | Self::Hop(_)
            | Self::TooLarge(_)
            | Self::NoGrpc
            | Self::NotSpoken(_)
            | Self::NoWebSocket => Outcome::BadRequest,
            Self::Refused(Refused::ShutDown) => Outcome::Draining,
            Self::Refused(Refused::Full { .. }) | Self::Shed | Self::Tripped(_) => Outcome::Refused,
            Self::Drill(Struck::Status(_)) => Outcome::BackendError,
            Self::Drill(Struck::Deadline) => Outcome::Deadline,
            Self::Fault(fault) => match fault {
                Fault::NoConnection(_) | Fault::Unread => Outcome::Unreachable,
                Fault::Lost(_) | Fault::Stale(_) => Outcome::Lost,
                Fault::Malformed(_) => Outcome::Malformed,
                Fault::BodyTooLarge | Fault::BodyIdle | Fault::BodySlow | Fault::BodyBroken(_) => {
                    Outcome::BadRequest
                }
                Fault::Deadline => Outcome::Deadline,
            },
        }
    }

    /// Its word in the log, and whose doing it is.
    pub(crate) fn reason(&self) -> (&'static str, Side) {
        match self {
            Self::Request(_) => ("request_malformed", Side::Request),
            Self::Hop(_) => ("hop_malformed", Side::Request),
            Self::TooLarge(_) | Self::Fault(Fault::BodyTooLarge) => ("body_too_large", Side::Request),
            Self::NoGrpc => ("no_grpc", Side::Request),
            Self::NotSpoken(_) => ("protocol_not_spoken", Side::Request),
            Self::NoWebSocket => ("no_websocket", Side::Request),
            Self::Refused(Refused::Full { cap: Some(_), .. }) => ("cap_full", Side::Room),
            Self::Refused(Refused::Full { reason: CellReason::Tenant, .. }) => {
                ("tenant_share_full", Side::Room)
            }
            Self::Refused(Refused::Full { reason: CellReason::Class, .. }) => ("class_full", Side::Room),
            Self::Refused(Refused::Full { reason: CellReason::Cell, .. }) => ("cell_full", Side::Room),
            Self::Refused(Refused::ShutDown) => ("draining", Side::Room),
            Self::Shed => ("shed", Side::Room),
            Self::Tripped(tripped) if tripped.reason == CellReason::Cell => {
                ("backend_breaker_open", Side::Room)
            }
            Self::Tripped(_) => ("dependency_breaker_open", Side::Room),
            Self::Drill(_) => ("drill", Side::Failure),
            Self::Fault(Fault::NoConnection(ConnectFault::Full(_))) => ("connections_full", Side::Room),
            Self::Fault(Fault::NoConnection(_) | Fault::Unread) => ("backend_unreachable", Side::Failure),
            Self::Fault(Fault::Lost(_) | Fault::Stale(_)) => ("backend_lost", Side::Failure),
            Self::Fault(Fault::Malformed(_)) => ("backend_malformed", Side::Failure),
            Self::Fault(Fault::Deadline) => ("deadline_passed", Side::Failure),
            Self::Fault(Fault::BodyIdle) => ("body_idle", Side::Request),
            Self::Fault(Fault::BodySlow) => ("body_slow", Side::Request),
            Self::Fault(Fault::BodyBroken(_)) => ("body_broken", Side::Request),
        }
    }

    /// How the attempt ended; `soon` says that the backend had less than half of the time that the route has.
    pub(crate) fn call_end(&self, soon: bool) -> CallEnd {
        match self {
            Self::Request(_) | Self::Hop(_) | Self::NoGrpc | Self::NoWebSocket => CallEnd::BadRequest,
            Self::NotSpoken(_) => CallEnd::NotSpoken,
            Self::TooLarge(_) => CallEnd::BodyTooLarge,
            Self::Refused(Refused::Full { reason, .. }) => refused(*reason),
            Self::Refused(Refused::ShutDown) | Self::Shed => CallEnd::RefusedCell,
            Self::Tripped(tripped) => refused(tripped.reason),
            Self::Drill(Struck::Status(status)) if status.is_server_error() => CallEnd::ServerError,
            Self::Drill(Struck::Status(_)) => CallEnd::TooMany,
            Self::Drill(Struck::Deadline) | Self::Fault(Fault::Deadline) if soon => CallEnd::CallerDeadline,
            Self::Drill(Struck::Deadline) | Self::Fault(Fault::Deadline) => CallEnd::RouteTimeout,
            Self::Fault(fault) => match fault {
                Fault::NoConnection(ConnectFault::Full(_)) => CallEnd::ConnectionsFull,
                Fault::NoConnection(ConnectFault::Unopened(_)) => CallEnd::Unopened,
                Fault::NoConnection(_) => CallEnd::NoConnection,
                Fault::Unread => CallEnd::Unread,
                Fault::Lost(_) => CallEnd::Lost,
                Fault::Stale(_) => CallEnd::Aged,
                Fault::Malformed(_) => CallEnd::Malformed,
                Fault::BodyTooLarge => CallEnd::BodyTooLarge,
                Fault::BodyIdle => CallEnd::BodyIdle,
                Fault::BodySlow => CallEnd::BodySlow,
                Fault::BodyBroken(_) => CallEnd::BodyBroken,
                Fault::Deadline => CallEnd::RouteTimeout,
            },
        }
    }

    /// What the client is told.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Self::Request(bad) => bad_request(&bad),
            Self::Hop(error) => problem(StatusCode::BAD_REQUEST, "hop_malformed", "Hop headers are unusable")
                .detail(error.to_string()),
            Self::TooLarge(_) | Self::Fault(Fault::BodyTooLarge) => body_too_large(),
            Self::NoGrpc | Self::NotSpoken(_) => {
                problem(StatusCode::NOT_IMPLEMENTED, "no_grpc", "Cell's backend serves no gRPC")
            }
            Self::NoWebSocket => {
                problem(StatusCode::NOT_IMPLEMENTED, "no_websocket", "Cell's backend serves no WebSocket")
            }
            Self::Refused(refused) => compartment(&refused),
            Self::Shed => {
                let kind = problem(status(CellReason::Cell), "shed", "Cells have no room for this class");
                refusal(CellRefusal::full(CellReason::Cell), kind)
            }
            Self::Tripped(tripped) => {
                let kind =
                    problem(status(tripped.reason), "breaker_open", "What the request needs is left alone");
                // Rounded up: who comes back then may be let through.
                let wait_s = tripped.left.as_secs() + u64::from(tripped.left.subsec_nanos() > 0);
                let refused = CellRefusal { reason: tripped.reason, cause: RefusalCause::BreakerOpen };
                refusal(refused, kind).retry_after(wait_s.max(RETRY_AFTER_S))
            }
            Self::Drill(Struck::Status(status)) => {
                let problem = problem(status, "drill", "A drill answers in the backend's place");
                problem.field(headers::DRILL, HeaderValue::from_static("status"))
            }
            Self::Drill(Struck::Deadline) => {
                backend(&Fault::Deadline).field(headers::DRILL, HeaderValue::from_static("hang"))
            }
            Self::Fault(fault) => backend(&fault),
        }
    }
}

/// The answer to a request that panicked. It names no fault, so that the router does not try the same on another cell.
pub(crate) fn panicked() -> Problem {
    problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Request met a fault of the agent")
}

/// The answer to a head of which no request was made, by the status of the parser's own answer.
pub(crate) fn unserved(status: StatusCode) -> Problem {
    let (kind, title) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ("head_too_large", "Head is too large"),
        StatusCode::URI_TOO_LONG => ("target_too_long", "Target is too long"),
        StatusCode::REQUEST_TIMEOUT => ("head_slow", "Head was not whole in time"),
        _ => ("request_malformed", "Request is malformed"),
    };
    problem(status, kind, title).detail("no request was made of it")
}

fn problem(status: StatusCode, kind: &str, title: &str) -> Problem {
    Problem::new(status, format!("urn:cofferdam:{kind}"), title)
}

fn bad_request(bad: &BadRequest) -> Problem {
    let (status, kind, title) = match bad {
        BadRequest::Target(TargetError::Method) => {
            (StatusCode::METHOD_NOT_ALLOWED, "method_not_relayed", "Method is not relayed")
        }
        BadRequest::Target(TargetError::TooLong) => {
            (StatusCode::URI_TOO_LONG, "target_too_long", "Target is too long")
        }
        BadRequest::Target(
            TargetError::Host
            | TargetError::HostsDiffer
            | TargetError::Path
            | TargetError::Scheme
            | TargetError::Framing(_),
        )
        | BadRequest::AmbiguousPath
        | BadRequest::Name(_)
        | BadRequest::Timeout(_) => (StatusCode::BAD_REQUEST, "request_malformed", "Request is malformed"),
        BadRequest::Loop => (StatusCode::LOOP_DETECTED, "loop", "Request loops"),
    };
    let problem = problem(status, kind, title).detail(bad.to_string());
    match status {
        StatusCode::METHOD_NOT_ALLOWED => problem.field(ALLOW, target::ALLOWED),
        _ => problem,
    }
}

fn body_too_large() -> Problem {
    problem(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Request body is too large")
}

fn compartment(refused: &Refused) -> Problem {
    match refused {
        Refused::Full { reason, class, cap, .. } => {
            let title = match reason {
                CellReason::Class if cap.is_some() => "Cap of the route or its dependency is reached",
                CellReason::Tenant => "Tenant holds its share of the class",
                CellReason::Class => "Class is full",
                CellReason::Cell => "Cell is full",
            };
            let full = problem(status(*reason), "compartment_full", title).member("class", class.as_str());
            let full = match cap {
                Some(cap) => full.member("cap", cap.to_string()),
                None => full,
            };
            let cause = if cap.is_some() { RefusalCause::Cap } else { RefusalCause::Full };
            refusal(CellRefusal { reason: *reason, cause }, full)
        }
        Refused::ShutDown => {
            let kind = problem(status(CellReason::Cell), "draining", "Cell is draining");
            refusal(CellRefusal { reason: CellReason::Cell, cause: RefusalCause::Draining }, kind)
        }
    }
}

fn backend(fault: &Fault) -> Problem {
    let (status, kind, title) = match fault {
        Fault::NoConnection(ConnectFault::Full(_)) => {
            let title = "Agent has no connection to its backend left";
            let kind = problem(status(CellReason::Cell), "connections_full", title);
            return refusal(CellRefusal::full(CellReason::Cell), kind);
        }
        Fault::NoConnection(_) | Fault::Unread => {
            let title = "Cell's backend takes no connection";
            let kind = problem(status(CellReason::Cell), "backend_unreachable", title);
            let cause = RefusalCause::BackendUnreachable;
            return refusal(CellRefusal { reason: CellReason::Cell, cause }, kind);
        }
        Fault::Lost(_) | Fault::Stale(_) => {
            (StatusCode::BAD_GATEWAY, "backend_lost", "Backend was lost before its answer")
        }
        Fault::Malformed(_) => {
            (StatusCode::BAD_GATEWAY, "backend_malformed", "Backend's answer is malformed")
        }
        Fault::Deadline => {
            (StatusCode::GATEWAY_TIMEOUT, "deadline_passed", "Deadline passed before an answer")
        }
        Fault::BodyIdle => (StatusCode::REQUEST_TIMEOUT, "body_idle", "Request body stood still"),
        Fault::BodySlow => (StatusCode::REQUEST_TIMEOUT, "body_slow", "Request body came too slowly"),
        Fault::BodyBroken(_) => (StatusCode::BAD_REQUEST, "body_broken", "Request body broke off"),
        Fault::BodyTooLarge => return body_too_large(),
    };
    let problem = problem(status, kind, title);
    match fault {
        Fault::Lost(_) => problem.field(headers::FAULT, LOST),
        Fault::Stale(_) => problem.field(headers::FAULT, STALE),
        _ => problem,
    }
}

fn refused(reason: CellReason) -> CallEnd {
    match reason {
        CellReason::Tenant => CallEnd::RefusedTenant,
        CellReason::Class => CallEnd::RefusedClass,
        CellReason::Cell => CallEnd::RefusedCell,
    }
}

/// What a tenant did itself is 429; what the cell cannot do is 503.
fn status(reason: CellReason) -> StatusCode {
    match reason {
        CellReason::Tenant => StatusCode::TOO_MANY_REQUESTS,
        CellReason::Class | CellReason::Cell => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The refusal's reach is in the field that every router reads, and what made it is beside: an older router, which does not
/// know that one, goes by the reach alone.
fn refusal(refused: CellRefusal, problem: Problem) -> Problem {
    let CellRefusal { reason, cause } = refused;
    let problem = problem.member("reason", reason.as_str()).retry_after(RETRY_AFTER_S);
    let problem = problem.field(headers::REFUSED, HeaderValue::from_static(reason.as_str()));
    match cause {
        RefusalCause::Full => problem,
        cause => problem.field(headers::CAUSE, HeaderValue::from_static(cause.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cofferdam_model::ClassName;
    use cofferdam_proxy::upstream::AnswerError;

    use super::*;

    fn full(reason: CellReason) -> Rejection {
        let class = ClassName::parse("search").unwrap();
        let (waited, expected) = (Duration::ZERO, Duration::ZERO);
        Refused::Full { reason, class, cap: None, used: 5, limit: 5, queued: 1, queue: 1, waited, expected }
            .into()
    }

    // P48
    #[test]
    fn a_refusal_has_its_reason_its_status_and_when_to_come_back() {
        let no_connection = |fault| Rejection::Fault(Fault::NoConnection(fault));
        let late = ConnectFault::Timeout(Duration::from_secs(1));
        for (rejection, status, reason, cause) in [
            (full(CellReason::Tenant), 429, "tenant", None),
            (full(CellReason::Class), 503, "class", None),
            (full(CellReason::Cell), 503, "cell", None),
            (Refused::ShutDown.into(), 503, "cell", Some("draining")),
            (no_connection(ConnectFault::Full(1)), 503, "cell", None),
            (no_connection(late), 503, "cell", Some("backend_unreachable")),
            (Fault::Unread.into(), 503, "cell", Some("backend_unreachable")),
        ] {
            let response = rejection.problem().into_response();
            let said = response.headers().get("cofferdam-cause");
            assert_eq!(said.map(|cause| cause.to_str().unwrap()), cause);
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["cofferdam-refused"], reason);
            assert_eq!(response.headers()["retry-after"], "1");
            assert_eq!(response.headers()["content-type"], "application/problem+json");
        }
    }

    // P30
    #[test]
    fn a_refusal_names_its_compartment_and_keeps_the_counts_for_the_log() {
        let response = full(CellReason::Class).problem().into_response();
        let body = std::str::from_utf8(response.body()).unwrap();
        assert!(body.contains(r#""class":"search""#) && body.contains(r#""reason":"class""#), "{body}");
        assert!(!body.contains('5') || body.matches('5').count() == 1, "only the status has a 5: {body}");
    }

    #[test]
    fn what_is_no_refusal_names_no_reason() {
        for (rejection, status) in [
            (Rejection::from(Fault::Malformed(AnswerError::Incomplete)), 502),
            (Fault::Deadline.into(), 504),
            (Fault::BodyIdle.into(), 408),
            (Rejection::TooLarge(1), 413),
            (BadRequest::Loop.into(), 508),
        ] {
            let response = rejection.problem().into_response();
            assert_eq!(response.status(), status);
            let internal = response.headers().keys().find(|name| headers::is_internal(name));
            assert_eq!(internal, None);
        }
    }
}
