//! Fleets to build tables from. No law stands here.

use std::collections::BTreeMap;

use cofferdam_model::{Alphabet, CellId, TenantId, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Placement, Slots, Spec};

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
    }
}

/// Shards of two from these cells, with seed 0, 65,536 slots and no pins.
pub(crate) fn pairs_of(cells: Vec<CellSpec>) -> Spec {
    Spec { seed: 0, slots: Slots::Pow16, cells, shard_size: 2, pins: BTreeMap::new() }
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
