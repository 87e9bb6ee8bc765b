//! Whether the backend takes connections: observed by a control task, shown by readiness and the log. It decides
//! nothing about a request, since a backend that is believed gone is still tried.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// What was last seen of the backend.
#[derive(Debug, Default)]
pub(crate) struct Health {
    seen: Mutex<Seen>,
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
        match &*self.seen.lock() {
            Seen::Taking => Ok(()),
            Seen::Nothing => Err("backend was not checked yet".to_owned()),
            Seen::Gone(why) => Err(format!("backend is gone: {why}")),
        }
    }

    /// Notes what was seen, and logs what has changed.
    fn note(&self, authority: &str, now: Seen) {
        let before = std::mem::replace(&mut *self.seen.lock(), now.clone());
        match (&before, &now) {
            (Seen::Taking | Seen::Nothing, Seen::Gone(why)) => {
                tracing::warn!(backend = authority, why, "backend is gone");
            }
            (Seen::Gone(_), Seen::Taking) => tracing::info!(backend = authority, "backend is back"),
            _ => {}
        }
    }
}

/// Checks the backend for ever, once every `period`. A check takes at most `patience`.
pub(crate) async fn watch(health: Arc<Health>, authority: String, period: Duration, patience: Duration) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let seen = match timeout(patience, TcpStream::connect(&authority)).await {
            Ok(Ok(_)) => Seen::Taking,
            Ok(Err(error)) => Seen::Gone(format!("{authority}: {error}")),
            Err(_) => Seen::Gone(format!("{authority}: no connection within {patience:?}")),
        };
        health.note(&authority, seen);
    }
}
