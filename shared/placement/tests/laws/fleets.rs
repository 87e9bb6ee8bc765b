//! Fleets to build tables from. No law stands here.

use cofferdam_model::{Alphabet, CellId, CellState, TenantId, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Placement, Spec};
use proptest::prelude::*;

pub(crate) fn cell_id(id: &str) -> CellId {
    CellId::parse(id).unwrap()
}

pub(crate) fn tenant(id: &str) -> TenantId {
    TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
}

pub(crate) fn cell(id: &str, zone: &str, thousandths: u32) -> CellSpec {
    CellSpec {
        id: cell_id(id),
        zone: ZoneId::parse(zone).unwrap(),
        weight: Weight::from_thousandths(thousandths).unwrap(),
        state: CellState::Active,
    }
}

/// Shards of two from these cells, with seed 0, 65,536 slots and no pins.
pub(crate) fn pairs_of(cells: Vec<CellSpec>) -> Spec {
    Spec::new(cells)
}

/// The name of the `i`-th cell: `cell-a`, `cell-b`, ...
pub(crate) fn name(i: usize) -> String {
    format!("cell-{}", char::from(b'a' + u8::try_from(i).unwrap()))
}

/// Cells of these weights, in whole units, in one zone.
pub(crate) fn weighted(weights: &[u32]) -> Spec {
    pairs_of(weights.iter().enumerate().map(|(i, w)| cell(&name(i), "zone-1", w * 1000)).collect())
}

/// `n` cells of weight 1 in one zone.
pub(crate) fn equal(n: usize) -> Spec {
    weighted(&vec![1; n])
}

/// As many cells of weight 1 in each zone as `sizes` says.
pub(crate) fn zoned(sizes: &[usize]) -> Spec {
    let zones = sizes.iter().enumerate().flat_map(|(zone, &size)| std::iter::repeat_n(zone, size));
    pairs_of(zones.enumerate().map(|(i, zone)| cell(&name(i), &format!("zone-{zone}"), 1000)).collect())
}

pub(crate) fn build(spec: &Spec) -> Placement {
    Placement::build(spec).unwrap()
}

/// Fleets of 3 to 8 cells of any weight, in one zone or in three that all have a cell, and shards that fit them.
pub(crate) fn any_fleet() -> impl Strategy<Value = Spec> {
    let cells = proptest::collection::vec((0..3_usize, 1..5000_u32), 3..=8);
    (any::<u64>(), any::<bool>(), cells, 1..=3_usize).prop_map(|(seed, zones, cells, shard_size)| {
        let zone = |i: usize, any: usize| {
            if !zones {
                0
            } else if i < 3 {
                i
            } else {
                any
            }
        };
        let cells = cells.iter().enumerate();
        let cells =
            cells.map(|(i, &(any, weight))| cell(&name(i), &format!("zone-{}", zone(i, any)), weight));
        Spec { seed, shard_size, ..pairs_of(cells.collect()) }
    })
}
