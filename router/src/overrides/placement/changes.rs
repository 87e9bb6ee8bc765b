//! How many changes of tenants' cells were asked for here, and what came of them, as a metric.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    change: &'static str,
    outcome: &'static str,
}

/// Counts them. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Changes(Family<Labels, Counter>);

impl Changes {
    /// A family in `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let family = Family::default();
        let help = "Changes of tenants' cells that operators asked this router for, by what came of them";
        registry.register("cofferdam_placement_changes", help, family.clone());
        Self(family)
    }

    /// Counts one, which was made or refused.
    pub(crate) fn count(&self, change: &'static str, is_made: bool) {
        let outcome = if is_made { "made" } else { "refused" };
        self.0.get_or_create(&Labels { change, outcome }).inc();
    }
}
