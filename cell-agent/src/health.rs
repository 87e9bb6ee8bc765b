//! Whether the backend takes connections: observed by a control task, shown by readiness and the log. It decides
//! nothing about a request, since a backend that is believed gone is still tried.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_proxy::upstream::{Address, ConnectFault};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// What was last seen of the backend.
#[derive(Debug, Default)]
pub(crate) struct Health {
    seen: watch::Sender<Seen>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Taking,
    /// And why, in words.
    Gone(String),
}

impl Health {
    /// Whether the backend takes connections, or why not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        match &*self.seen.borrow() {
            Seen::Taking => Ok(()),
            Seen::Nothing => Err("backend was not checked yet".to_owned()),
            Seen::Gone(why) => Err(format!("backend is gone: {why}")),
        }
    }

    /// Waits until anything was seen.
    pub(crate) async fn seen(&self) {
        // The sender is at hand, so the wait has an end.
        let _ = self.seen.subscribe().wait_for(|seen| *seen != Seen::Nothing).await;
    }

    /// Notes what was seen, and logs what has changed.
    fn note(&self, backend: &Address, now: Seen) {
        let before = self.seen.send_replace(now.clone());
        match (&before, &now) {
            (Seen::Taking | Seen::Nothing, Seen::Gone(why)) => {
                // A host that has vanished closes no connection by itself.
                backend.close_idle();
                tracing::warn!(%backend, why, "backend is gone");
            }
            (Seen::Gone(_), Seen::Taking) => tracing::info!(%backend, "backend is back"),
            _ => {}
        }
    }
}

/// Checks the backend for ever, once every `period`. A check takes at most `patience`.
pub(crate) async fn watch(health: Arc<Health>, backend: Address, period: Duration, patience: Duration) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let seen = match backend.connect(patience).await {
            Ok(_) => Seen::Taking,
            Err(ConnectFault::Io(error)) => Seen::Gone(format!("{backend}: {error}")),
            Err(fault) => Seen::Gone(format!("{backend}: {fault}")),
        };
        health.note(&backend, seen);
    }
}
