//! Messages: a connection of its own that hears one channel, beside the one that calls go over. It is made anew with that one.
//! A message is a hint; one that is lost, or a user that may not subscribe, costs time and nothing else.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{sleep, timeout};

use super::connect::{ConnectError, subscribe};
use super::live::Live;
use super::{Link, Way};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(250);
/// Whoever may not subscribe is asked again after so long: its rights may have changed.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(5);

impl Link {
    /// Shows each message of `channel`, without end. In a cluster every server has all messages.
    pub(in crate::redis) async fn hear(&self, channel: &str, mut show: impl FnMut(&str)) {
        let mut changed = self.0.context.changed.subscribe();
        let mut last_error = None;
        loop {
            let Some(live) = self.lives().into_iter().next() else {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let error = match timeout(CONNECT_TIMEOUT, subscribe(&live.address, self.entry(), channel)).await
            {
                Ok(Ok(mut messages)) => {
                    last_error = None;
                    let mut messages = messages.on_message();
                    loop {
                        tokio::select! {
                            message = messages.next() => match message {
                                Some(message) => show(str::from_utf8(message.get_payload_bytes()).unwrap_or_default()),
                                None => break,
                            },
                            _ = changed.changed() => if !self.lives().iter().any(|other| Arc::ptr_eq(other, &live)) {
                                break;
                            },
                        }
                    }
                    None
                }
                Ok(Err(error)) => Some(error),
                Err(_) => Some(ConnectError::Late),
            };
            let is_forbidden =
                matches!(&error, Some(ConnectError::Server(error)) if error.code() == Some("NOPERM"));
            if let Some(error) = error.map(|error| error.to_string())
                && last_error.as_ref() != Some(&error)
            {
                tracing::warn!(
                    "routers cannot recall from this one what idles here, since it hears no messages of the store at {}: {error}",
                    live.address
                );
                last_error = Some(error);
            }
            sleep(if is_forbidden { FORBIDDEN_PAUSE } else { PAUSE }).await;
        }
    }

    fn entry(&self) -> &super::connect::Entry {
        &self.0.context.entry
    }

    /// The connections that stand.
    fn lives(&self) -> Vec<Arc<Live>> {
        match &self.0.way {
            Way::One(keeper) => keeper.live().into_iter().collect(),
            Way::Cluster(cluster) => cluster.lives(),
        }
    }
}
