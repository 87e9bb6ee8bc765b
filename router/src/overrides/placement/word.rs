//! The words that a record is made of: cells that a tenant has for a while, and a cell that it came to.

use serde::{Deserialize, Serialize};

/// For so long a cell that a tenant has come to counts as new.
const NEW_FOR_MS: u64 = 3_600_000;

/// Cells that a tenant has for a while, home first, and who said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Word {
    pub(crate) to: Vec<String>,
    pub(crate) since_ms: u64,
    pub(crate) until_ms: u64,
    #[serde(default)]
    pub(crate) author: String,
    pub(crate) reason: String,
}

/// A cell that a tenant had not had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touched {
    pub(crate) cell: String,
    pub(crate) at_ms: u64,
}

impl Word {
    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms
    }
}

impl Touched {
    pub(super) fn ends_ms(&self) -> u64 {
        self.at_ms.saturating_add(NEW_FOR_MS)
    }
}
