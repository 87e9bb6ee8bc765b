//! One exchange with the backend: what goes there, what comes back, and the one rule on second connections.
//!
//! A *reused* connection that died before any byte of the answer gets one fresh connection, if the request is
//! idempotent or none of it was written. Whatever else is lost is told to the router, which knows the other cell.

use std::io;

use cofferdam_model::{ClassName, headers};
use cofferdam_proxy::fields;
use cofferdam_proxy::forwarding::{self, Came, Forwarding};
use cofferdam_proxy::grpc::{self, Call, Code};
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::replay::{BodyError, ReplayBody};
use cofferdam_proxy::trace;
use cofferdam_proxy::upgrade;
use cofferdam_proxy::upstream::{AnswerError, ConnectFault, Head, SendFault, Upstream, UpstreamBody};
use cofferdam_proxy::via::Via;
use http::{HeaderMap, HeaderName, Response, StatusCode, Version};
use tokio::time::{Instant, timeout_at};

use crate::classify::Classified;

/// Why the backend gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// There is no connection: nothing reached the backend.
    #[error("backend takes no connection")]
    NoConnection(#[source] ConnectFault),
    /// A new connection was closed at once: nothing reached the backend.
    #[error("backend closed a new connection unread")]
    Unread,
    /// The backend may have worked on the request, and its answer never came.
    #[error("backend was lost before its answer")]
    Lost(#[source] io::Error),
    /// The same on a connection that had been kept, while a new one stands: most likely it was closed for its age.
    #[error("backend closed a kept connection before its answer")]
    Stale(#[source] io::Error),
    /// The answer is not one.
    #[error("backend's answer is malformed")]
    Malformed(#[source] AnswerError),
    /// The client sent more than it may.
    #[error("request body is too large")]
    BodyTooLarge,
    /// The client sent nothing for too long.
    #[error("request body was idle")]
    BodyIdle,
    /// The deadline passed while the client still had to send some of its body.
    #[error("request body was not whole by the deadline")]
    BodySlow,
    /// The client's body broke off.
    #[error("request body broke off")]
    BodyBroken(#[source] BodyError),
    /// The deadline passed.
    #[error("deadline passed before the backend's answer")]
    Deadline,
}

/// Room for the lines of nearly every request.
const ROOM: usize = 512;

/// What a request to the backend says about its way so far.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    /// The connection that it came by.
    pub(crate) came: Came,
    /// In which fields the backend is told of that.
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) now: Instant,
    pub(crate) version: Version,
    /// This agent's pseudonym in Via.
    pub(crate) via: &'a Via,
    pub(crate) class: &'a ClassName,
    pub(crate) call: Call,
}

/// One exchange as the backend is asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) body: &'a ReplayBody,
    pub(crate) call: Call,
    /// Whether the backend is spoken to in HTTP/2.
    pub(crate) http2: bool,
    /// When the answer's head must be there.
    pub(crate) deadline: Instant,
}

/// Makes a request's fields fit for the backend, but for those that the head withholds, and answers with the lines that this
/// agent adds to them. What a client nominates away or forges is gone before.
pub(crate) fn prepare(map: &mut HeaderMap, request: &Classified, relay: &Relay<'_>) -> FieldLines {
    // A router says a dozen of what is internal: they are passed over as the head is written.
    let takes_trailers = fields::strip_request(map, headers::is_internal);
    trace::settle(map);
    let mut lines = FieldLines::with_capacity(ROOM);
    if takes_trailers || relay.call.is_grpc() {
        fields::take_trailers(&mut lines);
    }
    forwarding::say(map, &mut lines, relay.came, relay.forwarding);
    relay.via.add_line(map, &mut lines, relay.version);
    relay.call.say_timeout(map, &mut lines);
    let remaining = request.deadline.saturating_duration_since(relay.now);
    lines.push_text(&headers::TENANT, request.tenant.as_bytes());
    lines.push_text(&headers::CLASS, relay.class.as_str());
    lines.push_number(&headers::ATTEMPT, request.attempt.into());
    lines.push_number(&headers::REMAINING_MS, remaining.as_millis() as u64);
    lines
}

/// Which fields of an answer stay here. A router that is trusted hears what the request cost; nobody else does.
pub(crate) fn stays(trusted: bool) -> fn(&HeaderName) -> bool {
    if trusted { headers::stays_at_agent } else { headers::is_internal }
}

/// Takes from an answer what the backend has no say in: the connection, and what agents tell routers.
pub(crate) fn clean(status: StatusCode, map: &mut HeaderMap, stays: fn(&HeaderName) -> bool) {
    upgrade::strip_answer(status, map, stays);
}

/// Sends a request to the backend and awaits the head of its answer until the deadline. Dropping the future cancels the
/// exchange.
pub(crate) async fn forward(upstream: &Upstream, ask: Ask<'_>) -> Result<Response<UpstreamBody>, Fault> {
    // A timeout polls what it bounds first: without this, what is too late already would still be sent.
    let now = Instant::now();
    if ask.deadline <= now {
        return Err(Fault::Deadline);
    }
    if ask.http2 {
        // In a box, which keeps every other request's future small.
        let streamed = Box::pin(timeout_at(ask.deadline, stream(upstream, ask, now)));
        let late = |_| if ask.body.waits() { Fault::BodySlow } else { Fault::Deadline };
        return streamed.await.map_err(late)?;
    }
    exchange(upstream, ask, now).await
}

/// The same rule on a stream: what the backend has not looked at gets one more try; what was lost on a connection that
/// others had used does so only where it may be executed twice. A caller's own time bounds the answer to its last byte.
async fn stream(upstream: &Upstream, ask: Ask<'_>, now: Instant) -> Result<Response<UpstreamBody>, Fault> {
    let lease = upstream.stream(false).await.map_err(Fault::NoConnection)?;
    let reused = lease.reused();
    let mut answer = match lease.send(ask.head, ask.body).await.map_err(fault) {
        Ok(answer) => answer,
        Err(lost @ (Fault::Unread | Fault::Lost(_))) => {
            let again = matches!(lost, Fault::Unread) || reused && ask.head.method.is_idempotent();
            if again && ask.body.replayable() {
                match upstream.stream(true).await {
                    Ok(fresh) => fresh.send(ask.head, ask.body).await.map_err(fault),
                    Err(fault) => Err(Fault::NoConnection(fault)),
                }
                .map_err(|fault| after(lost, fault))?
            } else if reused && upstream.is_age(now.elapsed()) && upstream.stream(true).await.is_ok() {
                return Err(stale(lost));
            } else {
                return Err(lost);
            }
        }
        Err(fault) => return Err(fault),
    };
    if let Some(ends) = ask.call.ends() {
        let over = grpc::trailers(Code::DeadlineExceeded, "the caller's time is over");
        answer.body_mut().end_by(ends, over);
    }
    Ok(answer)
}

async fn exchange(upstream: &Upstream, ask: Ask<'_>, now: Instant) -> Result<Response<UpstreamBody>, Fault> {
    // In boxes, which keep every other request's future small.
    let Some(kept) = upstream.reuse(now) else { return Box::pin(on_fresh(upstream, ask)).await };
    let lost = match kept.send(ask.head, ask.body, ask.deadline).await.map_err(fault) {
        Err(lost @ (Fault::Unread | Fault::Lost(_))) => lost,
        other => return other,
    };
    let again = matches!(lost, Fault::Unread) || ask.head.method.is_idempotent();
    if again && ask.body.replayable() {
        Box::pin(on_fresh(upstream, ask)).await.map_err(|fault| after(lost, fault))
    } else {
        Err(Box::pin(told(upstream, ask, now, lost)).await)
    }
}

/// What is said of a request that was sent again, and lost once before: it may have been executed, though nothing of it was the
/// second time. A backend that takes no connection any more was lost with it; our own bound says nothing of that.
fn after(lost: Fault, fault: Fault) -> Fault {
    match (lost, fault) {
        (Fault::Lost(error), Fault::NoConnection(ConnectFault::Full(_))) => Fault::Stale(error),
        (lost @ Fault::Lost(_), Fault::NoConnection(_) | Fault::Unread) => lost,
        (_, fault) => fault,
    }
}

/// What is said of a kept connection that was lost: it was closed for its age where it broke at once, and the backend still takes
/// new ones. One that broke later was lost with the request, whoever listens: a supervisor does, or another process of the
/// backend's. A new one is kept for the next.
async fn told(upstream: &Upstream, ask: Ask<'_>, sent: Instant, lost: Fault) -> Fault {
    if !upstream.is_age(sent.elapsed()) {
        return lost;
    }
    match timeout_at(ask.deadline, upstream.connect()).await {
        Ok(Ok(fresh)) => {
            if fresh.keep() {
                stale(lost)
            } else {
                lost
            }
        }
        _ => lost,
    }
}

fn stale(fault: Fault) -> Fault {
    match fault {
        Fault::Lost(error) => Fault::Stale(error),
        other => other,
    }
}

async fn on_fresh(upstream: &Upstream, ask: Ask<'_>) -> Result<Response<UpstreamBody>, Fault> {
    let connected = timeout_at(ask.deadline, upstream.connect()).await.map_err(|_| Fault::Deadline)?;
    let fresh = connected.map_err(Fault::NoConnection)?;
    fresh.send(ask.head, ask.body, ask.deadline).await.map_err(fault)
}

fn fault(fault: SendFault) -> Fault {
    match fault {
        SendFault::Unsent => Fault::Unread,
        SendFault::Lost(error) => Fault::Lost(error),
        SendFault::Malformed(error) => Fault::Malformed(error),
        SendFault::Late => Fault::Deadline,
        SendFault::RequestBody(BodyError::TooLarge(_)) => Fault::BodyTooLarge,
        SendFault::RequestBody(BodyError::Idle(_)) => Fault::BodyIdle,
        SendFault::RequestBody(BodyError::Late) => Fault::BodySlow,
        SendFault::RequestBody(error) => Fault::BodyBroken(error),
    }
}
