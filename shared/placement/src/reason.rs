//! Why a tenant has the cells that it has.

use std::fmt;

use cofferdam_model::CellState;

/// What decided a shard. Each comes before those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The tenant is kept apart from all others, on cells that are there for it.
    Quarantine,
    /// The tenant's cells are named.
    Pin,
    /// The table, by the tenant's slot.
    Slot,
}

impl Reason {
    /// The reason as output and logs write it: `quarantine`, `pin` or `slot`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quarantine => "quarantine",
            Self::Pin => "pin",
            Self::Slot => "slot",
        }
    }

    /// Whether it may give a tenant a cell in `state`.
    pub(crate) fn may_name(self, state: CellState) -> bool {
        match self {
            Self::Quarantine => state == CellState::Quarantine,
            Self::Pin => matches!(state, CellState::Active | CellState::Dedicated),
            Self::Slot => state == CellState::Active,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
