//! Where a placement does not keep its shards' cells in zones of their own. To count, not to judge: a pin may do so on
//! purpose.

use cofferdam_model::{CellId, CellIndex, TenantId, ZoneId};

use crate::placement::Placement;

/// A shard, or all of them, with cells that one zone's loss takes together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The fleet had several zones and has one.
    #[error("all cells are in one zone now: shards lose their zone separation")]
    SeparationLost,
    /// Slots of a fleet with several zones.
    #[error("{0} slots have two cells of one zone")]
    Slots(u32),
    /// A pin in a fleet with several zones.
    #[error("pin of {tenant}: {first} and {second} are both in zone {zone}")]
    Pin {
        /// Whose pin.
        tenant: TenantId,
        /// The one cell.
        first: CellId,
        /// The other.
        second: CellId,
        /// Where both are.
        zone: ZoneId,
    },
}

/// What the new placement's shards owe to its zones. A fleet that is in one zone, and was, owes nothing.
pub(crate) fn violations(old: &Placement, new: &Placement) -> Vec<Violation> {
    if !new.zone_separated() {
        return if old.zone_separated() { vec![Violation::SeparationLost] } else { Vec::new() };
    }
    let mut found = Vec::new();
    let slots = (0..new.slots().count()).map(|slot| new.shard_of_slot(slot).cells());
    let n_slots = slots.filter(|shard| together(new, shard).is_some()).count();
    if let Ok(n_slots @ 1..) = u32::try_from(n_slots) {
        found.push(Violation::Slots(n_slots));
    }
    for (tenant, shard) in new.pins() {
        if let Some((first, second)) = together(new, shard) {
            let id = |cell: CellIndex| new.cells()[cell.get()].clone();
            let (first, second, zone) = (id(first), id(second), new.zones()[first.get()].clone());
            found.push(Violation::Pin { tenant: *tenant, first, second, zone });
        }
    }
    found
}

/// The first two cells of a shard that are in one zone.
fn together(placement: &Placement, shard: &[CellIndex]) -> Option<(CellIndex, CellIndex)> {
    let zone = |cell: &CellIndex| &placement.zones()[cell.get()];
    shard.iter().enumerate().find_map(|(at, first)| {
        let second = shard[at + 1..].iter().find(|second| zone(second) == zone(first))?;
        Some((*first, *second))
    })
}
