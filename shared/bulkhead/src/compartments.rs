//! The handle that every worker shares, the place that a request holds, and the wait for one. It knows no rule of
//! admission: those are the core's.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam_model::TenantId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::core::{Core, Denied, Entered, Held};
use crate::layout::Layout;
use crate::refusal::Refused;
use crate::snapshot::{Saturations, Snapshot};
use crate::waiters::Ticket;

/// A cell's compartments. Clones are handles to the same places, for any thread and any runtime.
///
/// # Panics
///
/// The methods that take a class's index panic where the layout has no such class.
#[derive(Clone)]
pub struct Compartments {
    shared: Arc<Shared>,
}

/// A place in the cell, the class and the tenant's compartment. Dropping it, on any thread, releases all three.
#[must_use = "a place is released when it is dropped"]
pub struct Place {
    shared: Arc<Shared>,
    held: Held,
}

struct Shared {
    layout: Layout,
    epoch: u64,
    state: Mutex<State>,
}

struct State {
    core: Core,
    /// Snapshots taken.
    sequence: u64,
}

impl Compartments {
    /// Empty compartments.
    pub fn new(layout: Layout) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = Mutex::new(State { core: Core::new(&layout), sequence: 0 });
        // Microseconds of Unix time fit for half a million years.
        Self { shared: Arc::new(Shared { layout, epoch: since.as_micros() as u64, state }) }
    }

    /// The division that the compartments were made with.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// A place at once, or a refusal. It never waits.
    pub fn try_acquire(&self, class: usize, tenant: &TenantId) -> Result<Place, Refused> {
        let admitted = self.shared.state.lock().core.admit_or_refuse(class, tenant);
        self.shared.settle(class, admitted, Duration::ZERO)
    }

    /// A place at once if there is one, else after a wait in the class's queue of at most `max_wait` and a quarter of
    /// what is left until `deadline`. It must be polled where tokio's time is enabled. Dropping the future leaves the
    /// queue; a place that had just been granted goes to the next waiter.
    pub async fn acquire(
        &self,
        class: usize,
        tenant: &TenantId,
        deadline: Option<Instant>,
    ) -> Result<Place, Refused> {
        let admitted = self.shared.state.lock().core.admit(class, tenant);
        if admitted.is_ok() {
            return self.shared.settle(class, admitted, Duration::ZERO);
        }
        let now = Instant::now();
        let patience = self.patience(class, deadline, now);
        if patience.is_zero() {
            return self.try_acquire(class, tenant);
        }
        // A place may have come free since: entering looks again before it queues.
        let entered = self.shared.state.lock().core.enter(class, tenant, now);
        let outcome = match entered {
            Entered::Admitted(held) => Ok(held),
            Entered::Denied(denied) => Err(denied),
            Entered::Waiting(ticket) => {
                let mut waiting = Waiting { shared: &self.shared, ticket: Some(ticket) };
                match tokio::time::timeout_at(now + patience, &mut waiting).await {
                    Ok(outcome) => outcome,
                    Err(_) => waiting.finish(),
                }
            }
        };
        let waited = if outcome.is_ok() { Duration::ZERO } else { now.elapsed() };
        self.shared.settle(class, outcome, waited)
    }

    /// Closes: whoever waits and whoever comes is told [`Refused::ShutDown`], which is not counted as a refusal.
    /// Places that are held stay held.
    pub fn close(&self) {
        let wakers = self.shared.state.lock().core.close();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Everything, at one moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.shared.state.lock();
        state.sequence += 1;
        let snapshot = state.core.snapshot(&self.shared.layout, Instant::now());
        Snapshot { epoch: self.shared.epoch, sequence: state.sequence, ..snapshot }
    }

    /// How saturated the cell and its classes are, for the header of an answer.
    pub fn saturations(&self) -> Saturations {
        self.shared.state.lock().core.saturations()
    }

    fn patience(&self, class: usize, deadline: Option<Instant>, now: Instant) -> Duration {
        let class = &self.shared.layout.classes()[class];
        if class.queue == 0 {
            return Duration::ZERO;
        }
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
        class.max_wait.min(left / 4)
    }
}

impl Shared {
    /// Turns the core's answer into the caller's, outside the lock.
    fn settle(
        self: &Arc<Self>,
        class: usize,
        outcome: Result<Held, Denied>,
        waited: Duration,
    ) -> Result<Place, Refused> {
        match outcome {
            Ok(held) => Ok(Place { shared: Arc::clone(self), held }),
            Err(Denied::Closed) => Err(Refused::ShutDown),
            Err(Denied::Full(full)) => Err(Refused::Full {
                reason: full.reason,
                class: self.layout.classes()[class].name.clone(),
                used: full.used,
                limit: full.limit,
                queued: full.queued,
                queue: full.queue,
                waited,
            }),
        }
    }
}

// The counts are behind the lock, which a line of the log is no reason to take.

impl fmt::Debug for Compartments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compartments").field("layout", &self.shared.layout).finish_non_exhaustive()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock ends with the statement: a waker may run anything, a release among it.
        let next = self.shared.state.lock().core.release(self.held);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// A claim on a place in the queue; it is given back exactly once, whichever way the wait ends.
struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    /// `None` once the outcome is collected.
    ticket: Option<Ticket>,
}

impl Waiting<'_> {
    /// The outcome. If there is none yet, the wait is over without one.
    fn finish(&mut self) -> Result<Held, Denied> {
        let ticket = self.ticket.take().expect("a wait ends once");
        let mut waker = Waker::noop().clone();
        let mut state = self.shared.state.lock();
        state.core.watch(&ticket, &mut waker);
        state.core.collect(ticket)
    }
}

impl Future for Waiting<'_> {
    type Output = Result<Held, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Declared before the lock is taken, so that the waker it is exchanged for is dropped after.
        let mut waker = context.waker().clone();
        let this = &mut *self;
        let ticket = this.ticket.take().expect("a wait is not polled after its end");
        let mut state = this.shared.state.lock();
        if state.core.watch(&ticket, &mut waker) {
            return Poll::Ready(state.core.collect(ticket));
        }
        this.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut waker = Waker::noop().clone();
        let mut state = self.shared.state.lock();
        state.core.watch(&ticket, &mut waker);
        let next = state.core.abandon(ticket);
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}
