//! Draining: one signal with three phases that every listener and connection of a process watches.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;
use tokio::task::coop::has_budget_remaining;

/// How far a process has come on its way out. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Serving,
    /// Readiness has turned; connections are still accepted, so that balancers can look away first.
    Leaving,
    /// Nothing new is accepted; what is in flight is finished and connections close after their answer.
    Draining,
    /// The deadline has passed: what is left is cut.
    Cut,
}

/// The side that decides.
#[derive(Debug, Clone)]
pub struct Drain {
    phase: Arc<watch::Sender<Phase>>,
}

/// The side that watches.
#[derive(Debug, Clone)]
pub struct Watch {
    phase: watch::Receiver<Phase>,
}

impl Default for Drain {
    fn default() -> Self {
        Self { phase: Arc::new(watch::Sender::new(Phase::Serving)) }
    }
}

impl Drain {
    /// Goes to `phase`; a phase that is already behind is ignored.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }

    /// A watcher of this signal.
    pub fn watch(&self) -> Watch {
        Watch { phase: self.phase.subscribe() }
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

impl Watch {
    /// Waits until the phase is `phase` or later. A signal whose owner is gone never comes.
    pub async fn reached(&mut self, phase: Phase) {
        if self.phase.wait_for(|now| *now >= phase).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Drives `work` to its end, or answers `None` once the phase is `phase` or later.
    pub async fn unless<F: Future>(&mut self, phase: Phase, mut work: Pin<&mut F>) -> Option<F::Output> {
        let moved = self.phase.clone();
        let mut reached = pin!(self.reached(phase));
        let mut is_heard = false;
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // Once the task is known to the signal, it has to ask again only when the phase has moved: work is polled far
            // more often, for every message of a connection.
            if (!is_heard || moved.has_changed().unwrap_or(true)) && reached.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            // Out of its budget, the signal has not listened.
            is_heard = has_budget_remaining();
            Poll::Pending
        })
        .await
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_phase_only_goes_forward() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        drain.advance(Phase::Draining);
        drain.advance(Phase::Leaving);
        assert_eq!(drain.phase(), Phase::Draining);
        watch.reached(Phase::Leaving).await;
        watch.reached(Phase::Draining).await;
        assert_eq!(watch.phase(), Phase::Draining);
    }

    #[tokio::test]
    async fn work_goes_on_until_the_phase_has_come() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        // A phase before the one that is waited for changes nothing.
        let work = pin!(async {
            drain.advance(Phase::Leaving);
            tokio::task::yield_now().await;
            7
        });
        assert_eq!(watch.unless(Phase::Draining, work).await, Some(7));
    }

    #[tokio::test]
    async fn work_is_left_when_the_phase_comes_while_it_waits() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        let waits = tokio::spawn(async move { watch.unless(Phase::Draining, pin!(pending::<()>())).await });
        for phase in [Phase::Leaving, Phase::Draining] {
            tokio::task::yield_now().await;
            assert!(!waits.is_finished());
            drain.advance(phase);
        }
        assert_eq!(waits.await.unwrap(), None);
        assert_eq!(drain.watch().unless(Phase::Draining, pin!(pending::<()>())).await, None);
    }
}
