//! Forwarding: attempts on the shard's cells, one after the other, by the one rule of `retry`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cofferdam_model::{CellIndex, CellReason, headers};
use cofferdam_proxy::grpc::{self, Call, Code};
use cofferdam_proxy::replay::{BodyError, ReplayBody};
use cofferdam_proxy::upstream::{ConnectFault, Head, Lease, SendFault, Upstream, UpstreamBody};
use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant as Deadline, timeout_at};

use super::admit::Admitted;
use super::choose::Chosen;
use super::metrics::Metrics;
use super::outgoing::Outgoing;
use super::reject::{Reason, Rejection};
use super::retry::{Facts, Fault, Step, next_step};
use super::view::View;
use crate::cells::OnCell;

/// The largest refusal that is read to its end, so that its connection can be used again.
const REFUSAL_BYTES: usize = 16 * 1024;

/// A request that has been to its cells.
#[derive(Debug)]
pub(super) struct Forwarded<'v> {
    pub(super) admitted: Admitted<'v>,
    /// Whether a backend may have seen it.
    pub(super) reached: bool,
    pub(super) answer: Result<Answer, Rejection>,
}

/// A cell's answer, its body still to come.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<UpstreamBody>,
    pub(super) on_cell: OnCell,
    pub(super) cell: CellIndex,
}

/// What is the same for all attempts of one request.
pub(super) struct Exchange<'a> {
    pub(super) view: &'a View,
    pub(super) metrics: &'a Metrics,
    pub(super) call: Call,
    pub(super) body: &'a ReplayBody,
}

/// An attempt that failed, and when the cell says to come back.
struct Failed {
    fault: Fault,
    retry_after: Option<Duration>,
}

/// What an agent says beside an answer; a backend without one says nothing.
#[derive(Default)]
struct Said<'a> {
    report: Option<&'a HeaderValue>,
    /// Why it refused.
    refused: Option<&'a HeaderValue>,
    backend_lost: bool,
}

/// Tries the cells until one answers, or the rule says that nothing is left to try. No `async fn`: that would keep what was
/// chosen twice.
pub(super) fn forward<'v>(
    chosen: Chosen<'v>,
    outgoing: &mut Outgoing,
    exchange: &Exchange<'_>,
) -> impl Future<Output = Forwarded<'v>> + Send {
    let Chosen { admitted, slot, candidates } = chosen;
    async move {
        let mut candidates = match candidates {
            Ok(candidates) => candidates,
            Err(shed) => return Forwarded { admitted, reached: false, answer: Err(*shed) },
        };
        let snapshot = &exchange.view.snapshot;
        snapshot.retries.deposit(slot);
        let mut n_attempts: u8 = 0;
        let mut broke = false;
        let (mut reached, mut refused, mut refreshed, mut retried) = (false, None, false, false);
        let mut next = None;
        let rejection = loop {
            let now = Instant::now();
            let Some(cell) = next.take().or_else(|| candidates.next(now)) else {
                break no_cell_left(reached, refused);
            };
            n_attempts = n_attempts.saturating_add(1);
            let remaining = admitted.deadline.saturating_duration_since(now);
            if remaining.is_zero() {
                // A timeout polls what it bounds first: what is too late already would still be sent.
                break rejection(&Failed { fault: Fault::Deadline, retry_after: None });
            }
            let head = outgoing.attempt(n_attempts, remaining);
            let failed = match exchange.attempt(cell, refreshed, head, admitted.deadline).await {
                Ok(answer) => return Forwarded { admitted, reached: true, answer: Ok(answer) },
                Err(failed) => failed,
            };
            if failed.fault == Fault::Unsent {
                // No agent has heard of it, and none is to take the next for a retry.
                n_attempts -= 1;
            }
            reached |= failed.fault.reached();
            if matches!(failed.fault, Fault::Refused(_)) {
                refused = Some(failed.retry_after);
            }
            let idempotent = outgoing.method.is_idempotent();
            let facts = Facts { idempotent, replayable: exchange.body.replayable(), retried, refreshed };
            let step = next_step(failed.fault, facts);
            // A connection that was kept may have been closed for its age: what comes of a fresh one tells.
            let is_stale = failed.fault == Fault::Lost { reused: true } && step == Step::SameCell;
            if failed.fault.is_a_loss(broke) && !is_stale {
                exchange.view.note_loss(&admitted.identified.tenant, cell);
            }
            broke = is_stale;
            if failed.fault.reached()
                && step != Step::Answer
                && !snapshot.retries.withdraw(slot, &snapshot.fleet.retry_budget, Instant::now())
            {
                break rejection(&failed);
            }
            match step {
                Step::Answer => break rejection(&failed),
                Step::SameCell => (next, refreshed) = (Some(cell), true),
                step => {
                    retried |= step == Step::Retry;
                    refreshed = false;
                }
            }
        };
        Forwarded { admitted, reached, answer: Err(rejection) }
    }
}

/// Every cell of the shard was tried: what the attempts say together.
fn no_cell_left(reached: bool, refused: Option<Option<Duration>>) -> Rejection {
    match refused {
        _ if reached => Rejection::new(Reason::Lost, "the request may have been executed"),
        Some(wait) => refusal(CellReason::Cell, wait),
        None => Rejection::new(Reason::PairDown, "no cell that the tenant may be sent to could be reached"),
    }
}

fn refusal(reason: CellReason, wait: Option<Duration>) -> Rejection {
    let rejection = Rejection::new(Reason::Cell(reason), format!("the cell refused: its {reason} is full"));
    match wait {
        Some(wait) => rejection.retry_after(wait),
        None => rejection,
    }
}

impl Exchange<'_> {
    /// One attempt on one cell.
    async fn attempt(
        &self,
        cell: CellIndex,
        fresh: bool,
        head: Head<'_>,
        deadline: Instant,
    ) -> Result<Answer, Failed> {
        let on_cell = self.view.snapshot.cells[cell.get()].enter();
        let failed = match self.send(cell, fresh, head, &on_cell, deadline.into()).await {
            Ok((response, fault)) => match fault {
                None => {
                    if response.status().is_server_error() {
                        on_cell.cell().note_failure(Instant::now());
                    }
                    return Ok(Answer { response, on_cell, cell });
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
            on_cell.cell().note_failure(Instant::now());
        }
        self.metrics.attempt_failed(id, fault);
        Err(failed)
    }

    /// A cell's answer, and what is wrong with it by the cell's own words.
    async fn send(
        &self,
        cell: CellIndex,
        fresh: bool,
        head: Head<'_>,
        on_cell: &OnCell,
        deadline: Deadline,
    ) -> Result<(Response<UpstreamBody>, Option<Fault>), Fault> {
        let upstream = &self.view.upstreams[cell.get()];
        let (sent, reused) = match self.call {
            Call::Plain => {
                let kept = if fresh { None } else { upstream.reuse() };
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
                Box::pin(called).await.map_err(|_| Fault::Deadline)??
            }
        };
        match sent {
            Ok(response) => {
                let said = Said::read(response.headers());
                on_cell.cell().note_answer(said.takes_work());
                if let Some(report) = said.report {
                    on_cell.cell().note_report(report.clone(), Instant::now());
                }
                let fault = said.fault();
                Ok((response, fault))
            }
            Err(SendFault::Unsent) => Err(Fault::Unsent),
            Err(SendFault::RequestBody(BodyError::TooLarge(_))) => Err(Fault::BodyTooLarge),
            Err(SendFault::RequestBody(BodyError::Idle(_))) => Err(Fault::BodyIdle),
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
        let lease = upstream.stream(fresh).await.map_err(|fault| no_connection(&fault, on_cell))?;
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
    connected.map_err(|fault| no_connection(&fault, on_cell))
}

fn no_connection(fault: &ConnectFault, on_cell: &OnCell) -> Fault {
    // Our own bound says nothing of the cell.
    if !matches!(fault, ConnectFault::Full(_)) {
        on_cell.cell().note_fault(fault, Instant::now());
    }
    Fault::Connect
}

/// What the client is told of a fault that is not tried again.
fn rejection(failed: &Failed) -> Rejection {
    match failed.fault {
        Fault::Refused(reason) => refusal(reason, failed.retry_after),
        Fault::Connect | Fault::Unsent => Rejection::new(Reason::PairDown, "the body can not be sent again"),
        Fault::Lost { .. } | Fault::BackendLost => {
            Rejection::new(Reason::Lost, "the request may have been executed")
        }
        Fault::Malformed => Rejection::new(Reason::Malformed, "the cell's answer was not valid HTTP"),
        Fault::Deadline => Rejection::new(Reason::Deadline, "the route's time is over"),
        Fault::BodyTooLarge => {
            Rejection::new(Reason::BodyTooLarge, "the body exceeds what this router takes")
        }
        Fault::BodyIdle => Rejection::new(Reason::BodyIdle, "nothing came of the body for too long"),
        Fault::BodyBroken => Rejection::new(Reason::BodyBroken, "the request's body ended early"),
    }
}

impl<'a> Said<'a> {
    /// One look at each name, since most answers have none of these, or the report alone: looking for each costs a hash.
    fn read(fields: &'a HeaderMap) -> Self {
        let mut said = Self::default();
        for (name, value) in fields.iter().filter(|(name, _)| headers::is_internal(name)) {
            if *name == headers::LOAD {
                said.report.get_or_insert(value);
            } else if *name == headers::REFUSED {
                said.refused.get_or_insert(value);
            } else {
                said.backend_lost |= *name == headers::FAULT;
            }
        }
        said
    }

    /// Whether the cell takes work: one that leaves, or whose backend is gone, answers as well.
    fn takes_work(&self) -> bool {
        self.refused.is_none_or(|reason| reason != CellReason::Cell.as_str())
    }

    /// Tells an agent's own refusal from a backend's answer.
    fn fault(&self) -> Option<Fault> {
        match self.refused {
            Some(word) => CellReason::from_wire(word.as_bytes()).map(Fault::Refused),
            None => self.backend_lost.then_some(Fault::BackendLost),
        }
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
