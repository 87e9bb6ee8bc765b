//! Which cells does the tenant have? One look-up in the snapshot's table; nothing observed changes the answer. A request
//! that belongs to a cell which drains has the cells that the tenant had before.

use cofferdam_model::{CellIndex, Shard};
use cofferdam_placement::Reason;

use super::admit::Admitted;
use super::view::View;

/// A request whose shard is known: what choice demands.
#[derive(Debug)]
pub(super) struct Placed<'v> {
    pub(super) admitted: Box<Admitted<'v>>,
    pub(super) shard: Shard<'v>,
    /// The cell of the shard that the request belongs to, where that drains.
    pub(super) kept_by: Option<CellIndex>,
    pub(super) slot: u32,
}

/// Looks the tenant's shard up.
pub(super) fn place<'v>(admitted: Box<Admitted<'v>>, view: &'v View) -> Placed<'v> {
    let (tenant, marked) = (&admitted.identified.tenant, admitted.identified.marked);
    let placed = view.placed.place(tenant);
    let before = || {
        // Whoever is pinned or in quarantine has left its slot's cells, and no mark leads back.
        let cell = marked.filter(|_| placed.reason == Reason::Slot)?;
        let shard = view.snapshot.placement.shard_before_drain(tenant)?;
        shard.cells().contains(&cell).then_some((shard, cell))
    };
    let (shard, kept_by) = match before() {
        Some((shard, cell)) => (shard, Some(cell)),
        None => (placed.shard, None),
    };
    Placed { admitted, shard, kept_by, slot: placed.slot }
}
