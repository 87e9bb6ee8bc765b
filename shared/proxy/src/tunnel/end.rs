//! What is said of a tunnel: its two directions, and how it ended. It knows no sockets.

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the client to the upstream.
    Up,
    /// From the upstream to the client.
    Down,
}

/// How a tunnel came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelEnd {
    /// Both sides have ended.
    Closed,
    /// The client's connection failed.
    ClientLost,
    /// The upstream's connection failed.
    UpstreamLost,
    /// No byte went either way for too long.
    Idle,
    /// One side had ended, and the other one neither said more nor ended.
    HalfClosed,
    /// The process left first.
    Cut,
    /// The client was gone before the answer was written.
    NotBegun,
}

impl TunnelEnd {
    /// Every end.
    pub const ALL: [Self; 7] = [
        Self::Closed,
        Self::ClientLost,
        Self::UpstreamLost,
        Self::Idle,
        Self::HalfClosed,
        Self::Cut,
        Self::NotBegun,
    ];

    /// The end's word in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::ClientLost => "client_lost",
            Self::UpstreamLost => "upstream_lost",
            Self::Idle => "idle",
            Self::HalfClosed => "half_closed",
            Self::Cut => "cut",
            Self::NotBegun => "not_begun",
        }
    }
}
