//! The start gate: a router that shares its limits serves nobody before the store has answered once, or has had its time to.
//! Until then it would admit from a share of its own what other routers have admitted already.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_limits::redis::RedisStore;
use tokio::sync::watch;

/// Clones share the gate.
#[derive(Debug, Clone)]
pub(crate) struct StartGate(watch::Sender<bool>);

impl StartGate {
    /// A gate that opens with the first answer of `store`, and after `wait` at the latest; without a store it is open. The
    /// second value opens it, and is to run beside.
    pub(crate) fn new(
        store: Option<Arc<RedisStore>>,
        wait: Duration,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let gate = Self(watch::Sender::new(store.is_none()));
        let opened = gate.clone();
        let open = async move {
            if let Some(store) = store
                && tokio::time::timeout(wait, store.first_answer()).await.is_err()
            {
                tracing::warn!(
                    waited = ?wait,
                    "the limit store has not answered since the start: on_store_failure decides until it does"
                );
            }
            opened.0.send_replace(true);
        };
        (gate, open)
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is open.
    pub(crate) async fn opened(&self) {
        // The sender is this gate's own.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}
