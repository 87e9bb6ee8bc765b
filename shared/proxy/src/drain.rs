//! Draining: one signal with three phases that every listener and connection of a process watches.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

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
}
