//! An attempt on a cell that has no answer yet.

use std::time::{Duration, Instant};

use cofferdam_fleet::ClassIndex;
use cofferdam_model::{CellIndex, TenantId};

/// An attempt that waits for the head of its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) tenant: TenantId,
    pub(super) class: ClassIndex,
    pub(super) cell: CellIndex,
    /// The snapshot's address, since both indexes mean something in that one alone.
    pub(super) snapshot: usize,
    pub(super) since: Instant,
    /// Half of what the route has.
    pub(super) half: Duration,
}
