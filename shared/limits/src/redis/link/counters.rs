//! What a link has counted since it was opened, for metrics. Names and labels on the wire are the router's affair.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::LinkError;

/// The upper bounds of the buckets of latencies, in microseconds; one more bucket has what is above.
pub const LATENCY_BOUNDS_US: [u64; 11] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000];

const N_BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkMetrics {
    /// Calls that were made, whatever became of them.
    pub calls: u64,
    /// Calls that failed because there was no connection.
    pub not_connected: u64,
    /// Calls that had no answer in time.
    pub late: u64,
    /// Calls under which the connection broke.
    pub broken: u64,
    /// Calls that the server answered with an error.
    pub refused: u64,
    /// Calls with an answer that means nothing.
    pub unexpected: u64,
    /// Connections that were made, the first ones included.
    pub connections: u64,
    /// Connections that ended.
    pub disconnections: u64,
    /// Times that the script was loaded because a server did not know it, beyond once for each connection.
    pub script_loads: u64,
    /// Times that a server of a cluster sent a call on to another.
    pub redirections: u64,
    /// How many answered calls took how long, by [`LATENCY_BOUNDS_US`].
    pub latency_buckets: [u64; N_BUCKETS],
    /// How long the answered calls took together.
    pub latency_sum: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: AtomicU64,
    not_connected: AtomicU64,
    late: AtomicU64,
    broken: AtomicU64,
    refused: AtomicU64,
    unexpected: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) disconnections: AtomicU64,
    pub(super) script_loads: AtomicU64,
    pub(super) redirections: AtomicU64,
    buckets: [AtomicU64; N_BUCKETS],
    latency_sum_us: AtomicU64,
}

pub(super) fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    /// Counts a call, and how long it took where it was answered.
    pub(super) fn count<T>(&self, result: &Result<T, LinkError>, took: Duration) {
        add_one(&self.calls);
        let kind = match result {
            Ok(_) => {
                let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                add_one(&self.buckets[LATENCY_BOUNDS_US.partition_point(|bound| *bound < us)]);
                self.latency_sum_us.fetch_add(us, Ordering::Relaxed);
                return;
            }
            Err(LinkError::NotConnected) => &self.not_connected,
            Err(LinkError::Late(_)) => &self.late,
            Err(LinkError::Broken(_)) => &self.broken,
            Err(LinkError::Refused { .. }) => &self.refused,
            Err(LinkError::Unexpected(_)) => &self.unexpected,
        };
        add_one(kind);
    }

    pub(super) fn snapshot(&self) -> LinkMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LinkMetrics {
            calls: get(&self.calls),
            not_connected: get(&self.not_connected),
            late: get(&self.late),
            broken: get(&self.broken),
            refused: get(&self.refused),
            unexpected: get(&self.unexpected),
            connections: get(&self.connections),
            disconnections: get(&self.disconnections),
            script_loads: get(&self.script_loads),
            redirections: get(&self.redirections),
            latency_buckets: self.buckets.each_ref().map(get),
            latency_sum: Duration::from_micros(get(&self.latency_sum_us)),
        }
    }
}
