//! What a cell is there for, as the fleet file says. Never whether it is well: that is observed.

use std::fmt;
use std::str::FromStr;

/// A cell's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CellState {
    /// The table gives it tenants.
    #[default]
    Active,
    /// It leaves: the table gives it nobody any more, and what it has goes on for a while.
    Draining,
    /// Outside the table: it has the tenants that are pinned to it.
    Dedicated,
    /// Outside the table: it has the tenants that are quarantined there.
    Quarantine,
    /// Nobody is sent there.
    Disabled,
}

/// Why text is no state of a cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not active, draining, dedicated, quarantine or disabled")]
pub struct CellStateError(String);

impl CellState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Draining, Self::Dedicated, Self::Quarantine, Self::Disabled];

    /// The state as the fleet file, output and logs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Dedicated => "dedicated",
            Self::Quarantine => "quarantine",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for CellState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CellState {
    type Err = CellStateError;

    fn from_str(text: &str) -> Result<Self, CellStateError> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| CellStateError(text.to_owned()))
    }
}
