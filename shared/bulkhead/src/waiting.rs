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
    /// Whether it was not polled yet, so that whom to wake is as new as can be.
    is_fresh: bool,
}

impl<'a> Waiting<'a> {
    /// A wait whose end is told to a waker already: that of who polls it first.
    pub(crate) fn new(shared: &'a Arc<Shared>, ticket: Ticket) -> Self {
        Self { shared, ticket: Some(ticket), is_fresh: true }
    }

    /// The outcome. If there is none yet, the wait is over without one.
    pub(crate) fn finish(&mut self) -> Result<Place, Refused> {
        let ticket = self.ticket.take().expect("a wait ends once");
        let mut state = self.shared.lock();
        let _kept = state.core.watch(&ticket, Waker::noop().clone());
        let outcome = state.core.collect(ticket, Instant::now);
        drop(state);
        outcome.map(|held| Place::new(self.shared, held))
    }
}

impl Future for Waiting<'_> {
    type Output = Result<Place, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if std::mem::take(&mut this.is_fresh) {
            return Poll::Pending;
        }
        // Not under the lock, nor with the ticket in hand: a clone may run anything.
        let waker = context.waker().clone();
        let ticket = this.ticket.take().expect("a wait is not polled after its end");
        let mut state = this.shared.lock();
        let watched = state.core.watch(&ticket, waker);
        if watched.is_ok() {
            drop(state);
            this.ticket = Some(ticket);
            return Poll::Pending;
        }
        let outcome = state.core.collect(ticket, Instant::now);
        drop(state);
        Poll::Ready(outcome.map(|held| Place::new(this.shared, held)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let (mut woken, now) = (Woken::default(), Instant::now());
        let mut state = self.shared.lock();
        let _kept = state.core.watch(&ticket, Waker::noop().clone());
        state.core.abandon(ticket, now);
        state.core.hand_on(now, &mut woken);
        drop(state);
        woken.wake();
    }
}
