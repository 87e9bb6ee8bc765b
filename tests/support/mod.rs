//! What the integration tests stand on: routers and agents in this process, real processes of the command, cells whose
//! every byte is scripted, a relay that injects faults, a raw client, and a reader of metrics.
//!
//! Nothing here waits a fixed time for something to have happened: [`eventually`] polls what can be observed.

pub(crate) mod agents;
pub(crate) mod clock;
pub(crate) mod files;
pub(crate) mod lateness;
pub(crate) mod load;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod processes;
pub(crate) mod raw;
pub(crate) mod redis;
pub(crate) mod relay;
pub(crate) mod routers;
pub(crate) mod scripted;

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest that anything is waited for: far above what it takes, so that a busy machine fails no test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Any free port of this machine's loopback.
pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Polls until `look` answers something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The result of `work`, which must come within [`PATIENCE`].
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}
