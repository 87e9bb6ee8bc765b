//! A refusal: which level said no, to what, and when to come back. How it looks on the wire is the caller's affair.

use std::time::Duration;

use cofferdam_model::{Level, Limited};

use crate::Standing;

/// Why a demand was refused. Where several levels refuse, it is the strictest: never, then the longest known wait,
/// then a wait that nobody knows; among equals the narrowest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The level that refused.
    pub level: Level,
    /// Which of its limits.
    pub limited: Limited,
    /// When to come back.
    pub wait: Wait,
    /// Where the tenant level stands; a demand without one has the default.
    pub standing: Standing,
}

/// When a refused request would pass, if nobody else took what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// After this time, exact to the microsecond and never short of it.
    Until(Duration),
    /// When somebody gives a permit back, or the store is there again: nobody knows.
    Unknown,
    /// Never: the cost exceeds the bucket's capacity, or a quota.
    Never,
}

/// What refused, at which level, and when to come back: a refusal whose standing nobody has looked up yet.
pub(crate) type Refused = (Level, Limited, Wait);

/// Keeps the stricter of two refusals; of equals the one that was there. Levels are looked at from narrow to wide, so that is
/// the narrower.
pub(crate) fn keep_stricter(kept: &mut Option<Refused>, other: Refused) {
    if kept.is_none_or(|(_, _, wait)| other.2.strictness() > wait.strictness()) {
        *kept = Some(other);
    }
}

impl Refusal {
    /// The refusal of a demand that is not decided at all, since the store is away and the demand is
    /// [`cofferdam_model::OnStoreFailure::Closed`].
    pub fn store_away(standing: Standing) -> Self {
        Self { level: Level::Fleet, limited: Limited::Store, wait: Wait::Unknown, standing }
    }
}

impl Wait {
    /// Orders waits by strictness.
    pub(crate) fn strictness(self) -> (u8, Duration) {
        match self {
            Self::Unknown => (0, Duration::ZERO),
            Self::Until(wait) => (1, wait),
            Self::Never => (2, Duration::ZERO),
        }
    }
}
