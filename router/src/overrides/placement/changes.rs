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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MoveLabels {
    outcome: &'static str,
}

/// Counts them. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Changes {
    asked: Family<Labels, Counter>,
    moves: Family<MoveLabels, Counter>,
}

impl Changes {
    /// A family in `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let (asked, moves) = (Family::default(), Family::default());
        let help = "Changes of tenants' cells that operators asked this router for, by what came of them";
        registry.register("cofferdam_placement_changes", help, asked.clone());
        let help = "Moves of tenants that this router took to their end, by what came of them";
        registry.register("cofferdam_placement_moves", help, moves.clone());
        Self { asked, moves }
    }

    /// Counts one, which was made or refused.
    pub(crate) fn count(&self, change: &'static str, is_made: bool) {
        let outcome = if is_made { "made" } else { "refused" };
        self.asked.get_or_create(&Labels { change, outcome }).inc();
    }

    /// Counts a move that has ended.
    pub(crate) fn count_move(&self, is_done: bool) {
        let outcome = if is_done { "done" } else { "undone" };
        self.moves.get_or_create(&MoveLabels { outcome }).inc();
    }
}
