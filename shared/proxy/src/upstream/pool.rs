//! The idle connections of one worker to one address, and the count of all its connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::limits::UpstreamLimits;
use crate::replay::Attempt;

/// The connections of one worker to one address that nobody uses now.
#[derive(Debug)]
pub(super) struct Pool {
    limits: UpstreamLimits,
    /// Oldest first.
    idle: Mutex<VecDeque<Idle>>,
    /// Connections that stand, idle and in use.
    open: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Idle {
    connection: Pooled,
    since: Instant,
}

/// A connection, counted for as long as it stands.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) sender: SendRequest<Attempt>,
    /// Held for its drop alone.
    pub(super) _count: Count,
}

/// One connection's part in the count of its pool's connections.
#[derive(Debug)]
pub(super) struct Count(Arc<AtomicUsize>);

impl Pool {
    pub(super) fn new(limits: UpstreamLimits) -> Self {
        Self { limits, idle: Mutex::default(), open: Arc::default() }
    }

    /// Counts one more connection, unless the pool has all that it may.
    pub(super) fn count_one(&self) -> Option<Count> {
        let max = self.limits.max_connections;
        let more = |n: usize| (n < max).then_some(n + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Count(Arc::clone(&self.open)))
    }

    /// The connection that was given back last, if it is young enough and still open.
    pub(super) fn take(&self) -> Option<Pooled> {
        let mut idle = self.idle.lock();
        while let Some(newest) = idle.pop_back() {
            if newest.since.elapsed() < self.limits.idle && !newest.connection.sender.is_closed() {
                return Some(newest.connection);
            }
        }
        None
    }

    /// Takes a connection back, and lets go of those that have been idle for too long.
    pub(super) fn put(&self, connection: Pooled) {
        if connection.sender.is_closed() {
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.lock();
        while idle.front().is_some_and(|oldest| since - oldest.since >= self.limits.idle) {
            idle.pop_front();
        }
        idle.push_back(Idle { connection, since });
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
