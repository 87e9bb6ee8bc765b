//! A connection whose other side has changed the protocol: no exchange's any more, and never the pool's again.

use std::time::Duration;

use bytes::Bytes;

use super::address::Stream;
use super::pool::{Count, Pooled};

/// A connection behind its 101, counted among its pool's for as long as it stands.
#[derive(Debug)]
pub(crate) struct Switched {
    pooled: Box<Pooled>,
    idle: Duration,
}

/// What is held for as long as the connection stands.
#[derive(Debug)]
pub(crate) struct Counted(#[expect(dead_code, reason = "held for its drop alone")] Count);

impl Switched {
    pub(super) fn new(pooled: Box<Pooled>, idle: Duration) -> Self {
        Self { pooled, idle }
    }

    /// The socket, what came behind the 101, the longest silence, and the connection's part in the count.
    pub(crate) fn into_parts(self) -> (Stream, Bytes, Duration, Counted) {
        let Pooled { connection, count } = *self.pooled;
        let (stream, early) = connection.into_parts();
        (stream, early, self.idle, Counted(count))
    }
}
