//! Forwarding: attempts on the shard's cells, one after the other, by the one rule of `retry`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_model::{CellIndex, CellRefusal, Resort, TenantId};
use cofferdam_proxy::grpc::{self, Call, Code};
use cofferdam_proxy::replay::{BodyError, ReplayBody};
use cofferdam_proxy::upstream::{ConnectFault, Head, Lease, SendFault, Upstream, UpstreamBody};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant as Deadline, timeout_at};

use super::admit::Admitted;
use super::choose::{Candidates, Chosen};
use super::identify::Identified;
use super::metrics::Metrics;
use super::outgoing::Outgoing;
use super::recorded;
use super::reject::{Reason, Rejection};
use super::retry::{Facts, Fault, Step, next_step};
use super::said::Said;
use super::view::View;
use crate::cells::{Cell, OnCell, Whereabouts};
use crate::recent::EventKind;

/// The largest refusal that is read to its end, so that its connection can be used again.
const REFUSAL_BYTES: usize = 16 * 1024;

/// What is said of what may not be tried again.
const EXECUTED: &str = "the request may have been executed";

/// A request that has been to its cells.
#[derive(Debug)]
pub(super) struct Forwarded<'v> {
    pub(super) admitted: Box<Admitted<'v>>,
    /// Whether a backend may have seen it.
    pub(super) reached: bool,
    pub(super) answer: Result<Answer, Rejection>,
    /// The cell that was tried last.
    pub(super) last: Option<CellIndex>,
}

/// A cell's answer, its body still to come.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<UpstreamBody>,
    pub(super) on_cell: OnCell,
    pub(super) cell: CellIndex,
    pub(super) whereabouts: Whereabouts,
}

/// What is the same for all attempts of one request.
pub(super) struct Exchange<'a> {
    pub(super) view: &'a View,
    pub(super) metrics: &'a Metrics,
    pub(super) call: Call,
    pub(super) body: &'a ReplayBody,
}

/// What is tried on one cell.
#[derive(Clone, Copy)]
struct Trial<'a> {
    cell: CellIndex,
    tenant: &'a TenantId,
    /// Whether its connection has to be a new one.
    fresh: bool,
    head: Head<'a>,
    begun: Instant,
    deadline: Instant,
}

/// What a cell answered, what is wrong with that by its own words, and what a drill did to it.
type Sent = (Response<UpstreamBody>, Option<Fault>, Option<&'static str>);

/// An attempt that failed, and when the cell says to come back.
struct Failed {
    fault: Fault,
    retry_after: Option<Duration>,
}

/// Tries the cells until one answers, or the rule says that nothing is left to try. No `async fn`: that would keep what was
/// chosen twice.
pub(super) fn forward<'v>(
    chosen: Chosen<'v>,
    outgoing: &mut Outgoing,
    exchange: &Exchange<'_>,
) -> impl Future<Output = Forwarded<'v>> + Send {
    let Chosen { admitted, slot, mut candidates, shed } = chosen;
    async move {
        let may_fall_back = outgoing.may_fall_back(admitted.identified.route);
        if let Some(shed) = shed {
            let answer = if may_fall_back {
                Box::pin(exchange.stand_in(&admitted, &mut candidates, outgoing, *shed)).await
            } else {
                Err(*shed)
            };
            return Forwarded { admitted, reached: answer.is_ok(), answer, last: None };
        }
        let snapshot = &exchange.view.snapshot;
        snapshot.retries.deposit(slot);
        // Of the cells that may have executed it: whom none of them has reached, no agent takes for a retry.
        let mut attempt: u8 = 1;
        let mut broke = false;
        let (mut reached, mut refused, mut refreshed, mut retried) = (false, None, false, false);
        let (mut next, mut last, mut now) = (None, None, admitted.at);
        let rejection = loop {
            let Some(cell) = next.take().or_else(|| candidates.next(now)) else {
                break no_cell_left(reached, refused);
            };
            let remaining = admitted.deadline.saturating_duration_since(now);
            if remaining.is_zero() {
                // A timeout polls what it bounds first: what is too late already would still be sent.
                break rejection(&Failed { fault: Fault::Deadline, retry_after: None });
            }
            let resort =
                if may_fall_back && !candidates.has_another(now) { Resort::Last } else { Resort::Another };
            let head = outgoing.attempt(attempt, resort, remaining);
            let (tenant, deadline) = (&admitted.identified.tenant, admitted.deadline);
            let trial = Trial { cell, tenant, fresh: refreshed, head, begun: now, deadline };
            last = Some(cell);
            let failed = match exchange.attempt(trial, &admitted).await {
                Ok((response, on_cell)) => {
                    let whereabouts = candidates.whereabouts(cell);
                    let answer = Ok(Answer { response, on_cell, cell, whereabouts });
                    return Forwarded { admitted, reached: true, answer, last };
                }
                Err(failed) => failed,
            };
            reached |= failed.fault.reached();
            if let Fault::Refused(refusal) = failed.fault {
                refused = Some((refusal, failed.retry_after));
            }
            let idempotent = outgoing.method.is_idempotent();
            let facts = Facts { idempotent, replayable: exchange.body.replayable(), retried, refreshed };
            let step = next_step(failed.fault, facts);
            // A connection that was kept may have been closed for its age: what comes of a fresh one tells.
            let is_stale = failed.fault == Fault::Lost { reused: true };
            let is_lost = failed.fault.is_a_loss(broke)
                || is_stale
                    && step != Step::SameCell
                    && !Box::pin(exchange.was_aged(cell, now, admitted.deadline)).await;
            if is_lost {
                let whereabouts = candidates.whereabouts(cell);
                exchange.view.note_loss(&admitted.identified.tenant, cell, whereabouts, now);
            }
            // What was lost of age reached nobody, and a fresh connection to the same cell is free. To go on from a cell that
            // may have executed it is not: neither at once, nor where no fresh one could be had.
            let costs = failed.fault.costs(broke);
            broke = is_stale && step == Step::SameCell;
            match step {
                Step::Answer => break rejection(&failed),
                Step::SameCell => (next, refreshed) = (Some(cell), true),
                Step::NextCell | Step::Retry => {
                    if costs && !snapshot.retries.withdraw(slot, &snapshot.fleet.retry_budget, Instant::now())
                    {
                        break Rejection::new(Reason::Lost, EXECUTED);
                    }
                    attempt = attempt.saturating_add(u8::from(costs));
                    (retried, refreshed) = (retried | costs, false);
                }
            }
            now = Instant::now();
        };
        Forwarded { admitted, reached, answer: Err(rejection), last }
    }
}

/// Every cell of the shard was tried: what the attempts say together.
fn no_cell_left(reached: bool, refused: Option<(CellRefusal, Option<Duration>)>) -> Rejection {
    match refused {
        _ if reached => Rejection::new(Reason::Lost, EXECUTED),
        Some((refused, wait)) => Rejection::of_cell(refused, wait),
        None => Rejection::new(Reason::PairDown, "no cell that the tenant may be sent to could be reached"),
    }
}

impl Exchange<'_> {
    /// What stands in for the answer to a request that is shed; `shed` where nothing does. No cell lets it in for that, and one
    /// that does not answer has not failed it.
    async fn stand_in(
        &self,
        admitted: &Admitted<'_>,
        candidates: &mut Candidates<'_>,
        outgoing: &mut Outgoing,
        shed: Rejection,
    ) -> Result<Answer, Rejection> {
        let now = Instant::now();
        let remaining = admitted.deadline.saturating_duration_since(now);
        let Some(cell) = candidates.next(now).filter(|_| !remaining.is_zero()) else { return Err(shed) };
        let on_cell = self.view.snapshot.cells[cell.get()].enter();
        let head = outgoing.attempt(1, Resort::Shed, remaining);
        let (tenant, deadline) = (&admitted.identified.tenant, admitted.deadline);
        let trial = Trial { cell, tenant, fresh: false, head, begun: now, deadline };
        match self.send(trial, &on_cell).await {
            Ok((response, None, _)) => {
                let whereabouts = candidates.whereabouts(cell);
                Ok(Answer { response, on_cell, cell, whereabouts })
            }
            Ok((response, Some(_), _)) => {
                discard(response.into_body()).await;
                Err(shed)
            }
            Err(_) => Err(shed),
        }
    }

    /// Whether a kept connection to the cell, on which a request was `sent`, was most likely closed for its age: it broke at
    /// once, and a fresh one can be had by the deadline, or our own bound is what says that none can. It is kept for the next.
    async fn was_aged(&self, cell: CellIndex, sent: Instant, deadline: Instant) -> bool {
        let upstream = &self.view.upstreams[cell.get()];
        if !upstream.is_age(sent.elapsed()) {
            return false;
        }
        let fault = match self.call {
            Call::Plain => match timeout_at(deadline.into(), upstream.connect()).await {
                Ok(Ok(lease)) => return lease.keep(),
                Ok(Err(fault)) => fault,
                Err(_) => return false,
            },
            Call::Grpc { .. } => match timeout_at(deadline.into(), upstream.stream(true)).await {
                Ok(Err(fault)) => fault,
                Ok(Ok(_)) => return true,
                Err(_) => return false,
            },
        };
        no_connection(&fault, &self.view.snapshot.cells[cell.get()]) == Fault::Full
    }

    /// One attempt on one cell.
    async fn attempt(
        &self,
        trial: Trial<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<(Response<UpstreamBody>, OnCell), Failed> {
        let Identified { tenant, route, .. } = &admitted.identified;
        let (cell, record) = (trial.cell, &self.view.top.record);
        let at = (route.class, cell);
        let waits = record.begin(tenant, &self.view.snapshot, at, trial.begun, route.timeout / 2);
        let on_cell = self.view.snapshot.cells[cell.get()].enter();
        let failed = match self.send(trial, &on_cell).await {
            Ok((response, fault, drill)) => match fault {
                None => {
                    let (level, reason, status) =
                        recorded::answer(&response, matches!(self.call, Call::Grpc { .. }), drill);
                    waits.ended(EventKind::Answer, level, reason, status);
                    if response.status().is_server_error() {
                        on_cell.cell().note_failure(trial.tenant, Instant::now());
                    }
                    return Ok((response, on_cell));
                }
                Some(fault) => {
                    let retry_after = retry_after(response.headers());
                    // In a box, since every attempt would else have room for this.
                    Box::pin(discard(response.into_body())).await;
                    Failed { fault, retry_after }
                }
            },
            Err(fault) => Failed { fault, retry_after: None },
        };
        let (id, fault) = (on_cell.cell().id.as_str(), failed.fault.as_str());
        tracing::debug!(cell = id, fault, "attempt failed");
        if failed.fault.is_the_cells() {
            on_cell.cell().note_failure(trial.tenant, Instant::now());
        }
        waits.ended(EventKind::Attempt, "cell", fault, 0);
        self.metrics.attempt_failed(id, fault);
        Err(failed)
    }

    /// A cell's answer.
    async fn send(&self, trial: Trial<'_>, on_cell: &OnCell) -> Result<Sent, Fault> {
        let Trial { cell, fresh, head, begun, deadline, .. } = trial;
        let deadline = Deadline::from(deadline);
        let upstream = &self.view.upstreams[cell.get()];
        let (sent, reused) = match self.call {
            Call::Plain => {
                let kept = if fresh { None } else { upstream.reuse(begun.into()) };
                let lease = match kept {
                    Some(lease) => lease,
                    // In a box, as is the call: each keeps every other request's future small.
                    None => Box::pin(connect(upstream, on_cell, deadline)).await?,
                };
                let reused = lease.reused();
                (lease.send(head, self.body, deadline).await, reused)
            }
            Call::Grpc { .. } => {
                let called = timeout_at(deadline, self.call(upstream, fresh, head, on_cell));
                let late = |_| if self.body.waits() { Fault::BodySlow } else { Fault::Deadline };
                Box::pin(called).await.map_err(late)??
            }
        };
        match sent {
            Ok(response) => {
                let said = Said::read(response.headers());
                on_cell.cell().note_answer(said.takes_work());
                if let Some(left) = said.leaves_in() {
                    on_cell.cell().note_leaving(left, Instant::now());
                }
                if let Some(report) = said.report {
                    on_cell.cell().note_report(report.clone(), Instant::now());
                }
                let (fault, drill) = (said.fault(), said.drill());
                Ok((response, fault, drill))
            }
            Err(SendFault::Unsent) => Err(Fault::Unsent),
            Err(SendFault::RequestBody(BodyError::TooLarge(_))) => Err(Fault::BodyTooLarge),
            Err(SendFault::RequestBody(BodyError::Idle(_))) => Err(Fault::BodyIdle),
            Err(SendFault::RequestBody(BodyError::Late)) => Err(Fault::BodySlow),
            Err(SendFault::RequestBody(_)) => Err(Fault::BodyBroken),
            Err(SendFault::Malformed(_)) => Err(Fault::Malformed),
            Err(SendFault::Lost(_)) => Err(Fault::Lost { reused }),
            Err(SendFault::Late) => Err(Fault::Deadline),
        }
    }

    /// A call of gRPC, on a stream. Its caller's own time bounds the answer to its last byte.
    async fn call(
        &self,
        upstream: &Upstream,
        fresh: bool,
        head: Head<'_>,
        on_cell: &OnCell,
    ) -> Result<(Result<Response<UpstreamBody>, SendFault>, bool), Fault> {
        let lease = upstream.stream(fresh).await.map_err(|fault| no_connection(&fault, on_cell.cell()))?;
        let reused = lease.reused();
        let mut sent = lease.send(head, self.body).await;
        if let (Ok(response), Some(ends)) = (&mut sent, self.call.ends()) {
            let over = grpc::trailers(Code::DeadlineExceeded, "the caller's time is over");
            response.body_mut().end_by(ends, over);
        }
        Ok((sent, reused))
    }
}

async fn connect(upstream: &Upstream, on_cell: &OnCell, deadline: Deadline) -> Result<Lease, Fault> {
    let connected = timeout_at(deadline, upstream.connect()).await.map_err(|_| Fault::Deadline)?;
    connected.map_err(|fault| no_connection(&fault, on_cell.cell()))
}

fn no_connection(fault: &ConnectFault, cell: &Cell) -> Fault {
    let fault_of = match fault {
        ConnectFault::Full(_) => Fault::Full,
        ConnectFault::NotSpoken(_) | ConnectFault::Unopened(_) => Fault::NotSpoken,
        ConnectFault::Timeout(_) | ConnectFault::Io(_) => Fault::Connect,
    };
    if fault_of.call_end().charge().down {
        cell.note_fault(fault, Instant::now());
    }
    fault_of
}

/// What the client is told of a fault that is not tried again.
fn rejection(failed: &Failed) -> Rejection {
    match failed.fault {
        Fault::Refused(refused) => Rejection::of_cell(refused, failed.retry_after),
        Fault::Connect | Fault::Full | Fault::NotSpoken | Fault::Unsent => {
            Rejection::new(Reason::PairDown, "the body can not be sent again")
        }
        Fault::Lost { .. } | Fault::BackendLost { .. } => Rejection::new(Reason::Lost, EXECUTED),
        Fault::Malformed => Rejection::new(Reason::Malformed, "the cell's answer was not valid HTTP"),
        Fault::Deadline => Rejection::new(Reason::Deadline, "the route's time is over"),
        Fault::BodyTooLarge => {
            Rejection::new(Reason::BodyTooLarge, "the body exceeds what this router takes")
        }
        Fault::BodyIdle => Rejection::new(Reason::BodyIdle, "nothing came of the body for too long"),
        Fault::BodySlow => {
            Rejection::new(Reason::BodyIdle, "the body was not whole when the route's time was over")
        }
        Fault::BodyBroken => Rejection::new(Reason::BodyBroken, "the request's body ended early"),
    }
}

fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let seconds = fields.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Reads a small body to its end, so that its connection can be used again; a large or slow one closes it.
async fn discard<B>(body: B)
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let _ =
        tokio::time::timeout(Duration::from_millis(100), Limited::new(body, REFUSAL_BYTES).collect()).await;
}
