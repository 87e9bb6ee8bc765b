//! What became of a request, as a closed set: for metrics, and for what its permit is released with.

use cofferdam_limits as limits;
use cofferdam_proxy::guard::End;
use cofferdam_proxy::tunnel::TunnelEnd;
use http::StatusCode;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A backend answered below 400.
    Success,
    /// A backend answered 4xx.
    ClientError,
    /// A backend answered 5xx.
    ServerError,
    /// A limit or a compartment refused.
    Refused,
    /// No cell gave an answer, or it broke off.
    Failed,
    /// The client went away first.
    ClientGone,
}

impl Outcome {
    /// Every outcome.
    pub(crate) const ALL: [Self; 6] =
        [Self::Success, Self::ClientError, Self::ServerError, Self::Refused, Self::Failed, Self::ClientGone];

    /// The outcome's word in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::ClientGone => "client_gone",
        }
    }

    /// The outcome of a backend's answer with this status, as long as its body ends well.
    pub(super) fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
            _ => Self::Success,
        }
    }

    /// The outcome of a backend's answer to a call with this `grpc-status`.
    pub(super) fn of_grpc(status: &[u8]) -> Self {
        match status {
            b"0" => Self::Success,
            // Unknown, deadline exceeded, unimplemented, internal, unavailable, data loss.
            b"2" | b"4" | b"12" | b"13" | b"14" | b"15" => Self::ServerError,
            _ => Self::ClientError,
        }
    }

    /// The outcome once the body has ended as well.
    pub(super) fn after(self, end: End) -> Self {
        match end {
            End::Complete => self,
            End::Failed => Self::Failed,
            End::Dropped => Self::ClientGone,
        }
    }

    /// The outcome of a tunnel.
    pub(super) fn of_tunnel(end: TunnelEnd) -> Self {
        match end {
            TunnelEnd::Closed | TunnelEnd::HalfClosed => Self::Success,
            TunnelEnd::ClientLost | TunnelEnd::NotBegun => Self::ClientGone,
            TunnelEnd::UpstreamLost | TunnelEnd::Idle | TunnelEnd::Cut => Self::Failed,
        }
    }

    /// What the permit is released with: tokens are given back only where nothing reached a backend.
    pub(super) fn for_permit(self, reached: bool) -> limits::Outcome {
        match self {
            _ if !reached => limits::Outcome::Ignored,
            Self::Failed | Self::ClientGone => limits::Outcome::Dropped,
            _ => limits::Outcome::Success,
        }
    }
}
