//! Bounds on the connections to one upstream address.

use std::time::Duration;

use crate::service::{ADDED_BYTES, ADDED_FIELDS, MAX_FIELDS};

/// How long a request's body may be held back before it is looked whether its client is still there.
pub(crate) const HELD: Duration = Duration::from_secs(1);

/// Bounds on the head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The most fields, at most [`HeadLimits::SLOTS`].
    pub fields: usize,
    /// The most bytes.
    pub bytes: usize,
}

impl HeadLimits {
    /// The most fields that there is room for.
    pub(crate) const SLOTS: usize = MAX_FIELDS + ADDED_FIELDS;

    /// Of an answer from outside.
    pub const OUTSIDE: Self = Self { fields: MAX_FIELDS, bytes: 64 * 1024 };

    /// Of an answer that another hop of ours has passed on, with what that adds.
    pub const OF_A_HOP: Self = Self { fields: Self::SLOTS, bytes: Self::OUTSIDE.bytes + ADDED_BYTES };
}

/// Bounds on the connections to one address from one worker.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamLimits {
    /// The longest that connecting may take.
    pub connect: Duration,
    /// How long an unused connection is kept. It must be below what the other side keeps it.
    pub idle: Duration,
    /// The most connections, in use and idle together.
    pub max_connections: usize,
    /// A kept connection that breaks within this, counted from a request's writing, was most likely closed for its age: the other
    /// side did so while the request was on its way.
    pub aged: Duration,
    /// The longest silence within an answer that has begun: in its body, and in both directions of a tunnel.
    pub stream_idle: Duration,
    /// Bounds on the heads of answers.
    pub head: HeadLimits,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            idle: Duration::from_secs(15),
            max_connections: 4096,
            aged: Duration::from_secs(1),
            stream_idle: Duration::from_secs(300),
            head: HeadLimits::OF_A_HOP,
        }
    }
}
