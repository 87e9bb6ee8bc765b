//! Bounds on one connection of HTTP/2 to an upstream.

use std::time::Duration;

/// Bounds on a connection that many exchanges share.
#[derive(Debug, Clone, Copy)]
pub struct Http2Limits {
    /// The most streams at once; the other side's SETTINGS may say fewer.
    pub max_streams: usize,
    /// How much of one stream's answer may come before it was read, in bytes.
    pub stream_window: u32,
    /// The longest silence while a stream is open before the other side is asked whether it lives, and the longest that
    /// it may take to say so.
    pub ping: Duration,
}

impl Http2Limits {
    /// The window of the whole connection, in bytes: that of all its streams. With less, a few answers that their
    /// clients do not take would hold back those of everybody else.
    pub(super) fn connection_window(&self) -> u32 {
        let streams = u32::try_from(self.max_streams).unwrap_or(u32::MAX);
        // The most that a window can be (RFC 9113 section 6.9.1).
        streams.saturating_mul(self.stream_window).min(i32::MAX as u32)
    }
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self { max_streams: 100, stream_window: 64 * 1024, ping: Duration::from_secs(30) }
    }
}
