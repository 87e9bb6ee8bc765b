//! The wait for a place: a future that holds a ticket, and gives it back exactly once, whichever way the wait ends. It
//! has no timer: whoever waits for it brings one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use crate::core::Woken;
use crate::place::{Place, Shared};
use crate::refusal::Refused;
use crate::waiters::Ticket;

/// A claim on a place in the queue.
pub(crate) struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    /// `None` once the outcome is collected.
    ticket: Option<Ticket>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>, ticket: Ticket) -> Self {
        Self { shared, ticket: Some(ticket) }
    }

    /// The outcome. If there is none yet, the wait is over without one.
    pub(crate) fn finish(&mut self) -> Result<Place, Refused> {
        let ticket = self.ticket.take().expect("a wait ends once");
        let mut waker = Waker::noop().clone();
        let mut state = self.shared.lock();
        state.core.watch(&ticket, &mut waker);
        let outcome = state.core.collect(ticket, Instant::now);
        drop(state);
        outcome.map(|held| Place::new(self.shared, held))
    }
}

impl Future for Waiting<'_> {
    type Output = Result<Place, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Declared before the lock is taken, so that the waker it is exchanged for is dropped after.
        let mut waker = context.waker().clone();
        let this = &mut *self;
        let ticket = this.ticket.take().expect("a wait is not polled after its end");
        let mut state = this.shared.lock();
        if state.core.watch(&ticket, &mut waker) {
            let outcome = state.core.collect(ticket, Instant::now);
            drop(state);
            return Poll::Ready(outcome.map(|held| Place::new(this.shared, held)));
        }
        this.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let (mut waker, mut woken) = (Waker::noop().clone(), Woken::default());
        let now = Instant::now();
        let mut state = self.shared.lock();
        state.core.watch(&ticket, &mut waker);
        state.core.abandon(ticket, now);
        state.core.hand_on(now, &mut woken);
        drop(state);
        woken.wake();
    }
}
