//! How one attempt at a cell can end, and what each end counts against: the one table for routers and agents.
//!
//! `docs/outcomes.md` shows it to readers. What a caller can make happen at will counts against nothing that others share.

/// How an attempt ended, as a router sees a cell or an agent sees its backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// An answer below 500 other than 429.
    Answered,
    /// An answer whose head begins a stream or a tunnel.
    Streams,
    /// A 429, or of gRPC RESOURCE_EXHAUSTED.
    TooMany,
    /// A 5xx, or of gRPC UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE or DATA_LOSS.
    ServerError,
    /// The connection broke within the answer's body.
    Truncated,
    /// Nothing more of an answer came for the longest silence of a stream.
    Silent,
    /// Not an answer, an interim answer that was not asked for, or a head over its bounds.
    Malformed,
    /// The route's time was over, and the other side had at least half of it.
    RouteTimeout,
    /// The connection broke before the answer's head, with the request written.
    Lost,
    /// The same on a connection that was kept, while a new one stands: it was closed for its age.
    Aged,
    /// A new connection was closed before the request was written.
    Unread,
    /// Connecting was refused, timed out, or found no host.
    NoConnection,
    /// The other side accepted a connection and opened no HTTP/2 on it, and never did before.
    Unopened,
    /// The other side answered HTTP/2 with something else.
    NotSpoken,
    /// All connections of this worker are in use.
    ConnectionsFull,
    /// The agent refused: the tenant's share is taken.
    RefusedTenant,
    /// The agent refused: the class, a cap or a dependency's breaker.
    RefusedClass,
    /// The agent refused: the cell is full, drains, or its backend is left alone or gone.
    RefusedCell,
    /// The request was malformed, or asked for a protocol that is not relayed.
    BadRequest,
    /// The request's body exceeds its bound.
    BodyTooLarge,
    /// Nothing of the request's body came for the longest silence.
    BodyIdle,
    /// The route's time was over while the request's body was still awaited from the caller.
    BodySlow,
    /// The request's body broke off.
    BodyBroken,
    /// The caller went away.
    CallerGone,
    /// The caller's own deadline passed, or the other side had less than half of the route's time.
    CallerDeadline,
}

/// What an end counts as at an agent's breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    Nothing,
    /// A success of both.
    Success,
    /// A failure of the dependency that the route names, or else of the backend.
    Dependency,
    /// A failure of the backend.
    Backend,
}

/// Whether a router tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// No.
    No,
    /// On the next cell, and nothing is taken from the retry budget.
    Free,
    /// An idempotent request once, on the next cell, out of the retry budget.
    Paid,
}

/// What an end counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// The agent's breakers.
    pub guard: Guard,
    /// Whether its time is a sample for a ceiling that follows the latency.
    pub sample: bool,
    /// Whether it adds to the cell's failure penalty at the router.
    pub penalty: bool,
    /// Whether and how the router tries again.
    pub again: Again,
    /// Whether it is a loss of the cell for crash attribution.
    pub loss: bool,
    /// Whether the router believes the cell down by it.
    pub down: bool,
}

impl CallEnd {
    /// Every end.
    pub const ALL: [Self; 25] = [
        Self::Answered,
        Self::Streams,
        Self::TooMany,
        Self::ServerError,
        Self::Truncated,
        Self::Silent,
        Self::Malformed,
        Self::RouteTimeout,
        Self::Lost,
        Self::Aged,
        Self::Unread,
        Self::NoConnection,
        Self::Unopened,
        Self::NotSpoken,
        Self::ConnectionsFull,
        Self::RefusedTenant,
        Self::RefusedClass,
        Self::RefusedCell,
        Self::BadRequest,
        Self::BodyTooLarge,
        Self::BodyIdle,
        Self::BodySlow,
        Self::BodyBroken,
        Self::CallerGone,
        Self::CallerDeadline,
    ];

    /// What it counts against.
    pub fn charge(self) -> Charge {
        use Again::{Free, No, Paid};
        use Guard::{Backend, Dependency, Nothing, Success};
        let none =
            Charge { guard: Nothing, sample: false, penalty: false, again: No, loss: false, down: false };
        match self {
            Self::Answered => Charge { guard: Success, sample: true, ..none },
            Self::Streams => Charge { guard: Success, ..none },
            Self::ServerError => Charge { guard: Dependency, penalty: true, ..none },
            // Its head was a success.
            Self::Truncated => Charge { guard: Success, sample: true, loss: true, ..none },
            Self::Malformed => Charge { guard: Dependency, penalty: true, ..none },
            Self::RouteTimeout => Charge { guard: Dependency, sample: true, ..none },
            Self::Lost => Charge { guard: Dependency, penalty: true, again: Paid, loss: true, ..none },
            Self::Aged => Charge { guard: Dependency, again: Paid, ..none },
            Self::Unread => Charge { guard: Backend, again: Free, ..none },
            Self::NoConnection => Charge { guard: Backend, penalty: true, again: Free, down: true, ..none },
            Self::RefusedCell => Charge { penalty: true, again: Free, ..none },
            Self::Unopened | Self::NotSpoken | Self::ConnectionsFull => Charge { again: Free, ..none },
            Self::TooMany
            | Self::Silent
            | Self::RefusedTenant
            | Self::RefusedClass
            | Self::BadRequest
            | Self::BodyTooLarge
            | Self::BodyIdle
            | Self::BodySlow
            | Self::BodyBroken
            | Self::CallerGone
            | Self::CallerDeadline => none,
        }
    }

    /// Whether one caller can make it happen at will, whatever the state of what answers it.
    pub fn is_the_callers(self) -> bool {
        matches!(
            self,
            Self::Unopened
                | Self::NotSpoken
                | Self::BadRequest
                | Self::BodyTooLarge
                | Self::BodyIdle
                | Self::BodySlow
                | Self::BodyBroken
                | Self::CallerGone
                | Self::CallerDeadline
        )
    }

    /// What happened, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered below 500",
            Self::Streams => "a stream or tunnel began",
            Self::TooMany => "429 (gRPC 8)",
            Self::ServerError => "5xx (gRPC 2, 4, 13, 14, 15)",
            Self::Truncated => "answer cut within its body",
            Self::Silent => "answer silent for too long",
            Self::Malformed => "malformed answer, head over its bounds, 101 unasked",
            Self::RouteTimeout => "route's time over",
            Self::Lost => "connection reset before the head",
            Self::Aged => "kept connection closed for its age",
            Self::Unread => "new connection closed unread",
            Self::NoConnection => "connection refused, timed out or without a host",
            Self::Unopened => "HTTP/2 never opened, nothing said",
            Self::NotSpoken => "HTTP/2 not spoken",
            Self::ConnectionsFull => "own connections all in use",
            Self::RefusedTenant => "refused: tenant's share",
            Self::RefusedClass => "refused: class, cap or dependency",
            Self::RefusedCell => "refused: cell full, draining or without backend",
            Self::BadRequest => "malformed request, protocol not relayed",
            Self::BodyTooLarge => "request's body too large",
            Self::BodyIdle => "request's body stalled",
            Self::BodySlow => "request's body still coming at the deadline",
            Self::BodyBroken => "request's body broke off",
            Self::CallerGone => "caller gone",
            Self::CallerDeadline => "caller's own deadline, or under half of the route's time",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_does_at_will_counts_against_nothing_that_others_share() {
        for end in CallEnd::ALL.into_iter().filter(|end| end.is_the_callers()) {
            let Charge { guard, sample, penalty, again, loss, down } = end.charge();
            let shares = (guard, sample, penalty, loss, down);
            assert_eq!(shares, (Guard::Nothing, false, false, false, false), "{end:?}");
            assert_ne!(again, Again::Paid, "{end:?}");
        }
    }
}
