//! Why a request got no place, in words that name the compartment. Status codes and headers are the agent's.

use std::fmt;
use std::time::Duration;

use cofferdam_model::{CellReason, ClassName};

use crate::caps::CapName;

/// Why a request got no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// A compartment is full.
    Full {
        /// The narrowest level that stopped the request.
        reason: CellReason,
        /// The class that was asked for.
        class: ClassName,
        /// The cap that is full, where it is one: then `used` and `queued` are the cap's, and `limit` bounds both.
        cap: Option<CapName>,
        /// Places held in the compartment that refused: the tenant's of the class, the class's, or the cell's.
        used: u32,
        /// The places that the compartment has for this request. For the cell: less what is kept for other classes.
        limit: u32,
        /// Requests waiting: the tenant's of the class, or the class's.
        queued: u32,
        /// How many may wait there.
        queue: u32,
        /// How long the request had waited; zero where it was refused on entry.
        waited: Duration,
        /// How long it would have waited, where it was refused on entry since that is longer than it may; else zero.
        expected: Duration,
    },
    /// The compartments are closed; this is no refusal and is not counted as one.
    ShutDown,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Full { reason, class, cap, used, limit, queued, queue, waited, expected } = self else {
            return f.write_str("compartments are shut down");
        };
        if let Some(cap) = cap {
            return write!(f, "{cap} is full for class {class}: {used} of {limit} in use, {queued} queued");
        }
        match reason {
            CellReason::Tenant => write!(f, "tenant's share of class {class} is full")?,
            CellReason::Class => write!(f, "class {class} is full")?,
            CellReason::Cell => write!(f, "cell is full for class {class}")?,
        }
        write!(f, ": {used} of {limit} places in use, {queued} of {queue} queued")?;
        if !expected.is_zero() {
            write!(f, ", a wait of {expected:?} ahead")?;
        }
        if waited.is_zero() { Ok(()) } else { write!(f, ", waited {waited:?}") }
    }
}

impl std::error::Error for Refused {}
