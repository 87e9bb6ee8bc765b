//! The idle connections of one worker to one address, and the count of all its connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::address::Address;
use super::connection::Connection;
use super::limits::UpstreamLimits;
use super::names::Stamp;
use super::serving::Serving;

/// How often it is looked whether idle connections still lead where they should.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The connections of one worker to one address that nobody uses now.
#[derive(Debug)]
pub(super) struct Pool {
    address: Address,
    pub(super) limits: UpstreamLimits,
    idle: Mutex<IdleSet>,
    /// Connections that stand, idle and in use.
    open: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct IdleSet {
    /// Oldest first.
    connections: VecDeque<Idle>,
    /// Whether a task sees to it that nothing stays for too long.
    reaped: bool,
}

#[derive(Debug)]
struct Idle {
    pooled: Box<Pooled>,
    since: Instant,
}

/// A connection and what it serves, counted for as long as it stands. It is kept in a box for as long, so that handing it
/// on moves a pointer.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) connection: Connection,
    pub(super) serving: Serving,
    /// What it was made by.
    stamp: Option<Stamp>,
    /// Held for its drop alone.
    _count: Count,
}

/// One connection's part in the count of its pool's connections.
#[derive(Debug)]
pub(super) struct Count(Arc<AtomicUsize>);

impl Pooled {
    pub(super) fn new(connection: Connection, stamp: Option<Stamp>, count: Count) -> Self {
        Self { connection, serving: Serving::nothing(), stamp, _count: count }
    }
}

impl Pool {
    pub(super) fn new(address: Address, limits: UpstreamLimits) -> Self {
        Self { address, limits, idle: Mutex::default(), open: Arc::default() }
    }

    /// Counts one more connection, unless all that the pool may have are in use: an idle one makes way.
    pub(super) fn count_one(&self) -> Option<Count> {
        self.try_count().or_else(|| {
            let oldest = self.idle.lock().connections.pop_front()?;
            drop(oldest);
            self.try_count()
        })
    }

    fn try_count(&self) -> Option<Count> {
        let max = self.limits.max_connections;
        let more = |n: usize| (n < max).then_some(n + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Count(Arc::clone(&self.open)))
    }

    /// The connection that was given back last, if it is young enough `now` and still open.
    pub(super) fn take(&self, now: Instant) -> Option<Box<Pooled>> {
        let mut idle = self.idle.lock();
        while let Some(newest) = idle.connections.pop_back() {
            let may_be_used =
                now - newest.since < self.limits.idle && self.address.holds(newest.pooled.stamp);
            if may_be_used && newest.pooled.connection.is_fresh() {
                return Some(newest.pooled);
            }
        }
        None
    }

    /// Takes a connection back, unless it leads where it should no more.
    pub(super) fn put(self: &Arc<Self>, mut pooled: Box<Pooled>) {
        if !self.address.holds(pooled.stamp) {
            return;
        }
        pooled.connection.rest();
        pooled.serving = Serving::nothing();
        let mut idle = self.idle.lock();
        idle.connections.push_back(Idle { pooled, since: Instant::now() });
        if !std::mem::replace(&mut idle.reaped, true) {
            tokio::spawn(reap(Arc::downgrade(self)));
        }
    }

    /// Closes what has been idle for too long, or leads where it should no more; when to look again, or `None` once nothing is idle.
    fn reap(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        let now = Instant::now();
        while idle.connections.front().is_some_and(|oldest| now - oldest.since >= self.limits.idle) {
            idle.connections.pop_front();
        }
        idle.connections.retain(|idle| self.address.holds(idle.pooled.stamp));
        let next =
            idle.connections.front().map(|oldest| (oldest.since + self.limits.idle).min(now + LOOK_EVERY));
        idle.reaped = next.is_some();
        next
    }
}

/// Reaps a pool until nothing is idle there, or the pool is gone.
async fn reap(pool: Weak<Pool>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.reap()) {
        sleep_until(next).await;
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
