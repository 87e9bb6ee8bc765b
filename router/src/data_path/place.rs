//! Which cells does the tenant have? One look-up in the snapshot's table; nothing observed changes the answer.

use cofferdam_model::Shard;

use super::admit::Admitted;
use crate::snapshot::Snapshot;

/// A request whose shard is known: what choice demands.
#[derive(Debug)]
pub(super) struct Placed<'v> {
    pub(super) admitted: Admitted<'v>,
    pub(super) shard: Shard<'v>,
    pub(super) slot: u32,
}

/// Looks the tenant's shard up.
pub(super) fn place<'v>(admitted: Admitted<'v>, snapshot: &'v Snapshot) -> Placed<'v> {
    let placed = snapshot.placement.place(&admitted.identified.tenant);
    Placed { admitted, shard: placed.shard, slot: placed.slot }
}
