//! What came of the fleet files that were offered to a running router, as a metric.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::snapshot::ReloadError;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

/// What came of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It runs.
    Taken,
    /// It runs, and its change was refused.
    Forced,
    /// Its change was refused.
    Gate,
    /// Its revision was accepted with another table: two files claim to be one.
    OtherTable,
    /// It may not follow for another reason, or makes no snapshot.
    Refused,
    /// It could not be read, or is not a fleet file.
    Unreadable,
}

/// Counts them. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Reloads(Family<Labels, Counter>);

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Taken, Self::Forced, Self::Gate, Self::OtherTable, Self::Refused, Self::Unreadable];

    fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Forced => "forced",
            Self::Gate => "gate",
            Self::OtherTable => "other_table",
            Self::Refused => "refused",
            Self::Unreadable => "unreadable",
        }
    }
}

impl From<&ReloadError> for Outcome {
    fn from(error: &ReloadError) -> Self {
        match error {
            ReloadError::Gate(_) => Self::Gate,
            ReloadError::SameRevision { .. } | ReloadError::AcceptedOtherwise { .. } => Self::OtherTable,
            _ => Self::Refused,
        }
    }
}

impl Reloads {
    /// A family in `registry`. All outcomes show from the start, so that an alert sees the first one.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let family = Family::default();
        for outcome in Outcome::ALL {
            drop(family.get_or_create(&Labels { outcome: outcome.as_str() }));
        }
        let help = "Fleet files offered to the running router, by what came of them";
        registry.register("cofferdam_router_reloads", help, family.clone());
        Self(family)
    }

    /// Counts one file.
    pub(crate) fn count(&self, outcome: Outcome) {
        self.0.get_or_create(&Labels { outcome: outcome.as_str() }).inc();
    }
}
