//! What is kept of an accepted fleet file. Never the map's seed, which may be secret: a table that is made again with another
//! seed has another digest.

use std::collections::BTreeMap;

use cofferdam_model::{Alphabet, CellId, Digest, TenantId, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Inclusion, Placement, Slots, Spec};
use serde::{Deserialize, Serialize};

/// Every character that a fleet file can add to its tenants' alphabet.
const EXTRA: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.~@+";

/// An accepted fleet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) fleet: String,
    pub(crate) revision: u64,
    pub(crate) placement: Recorded,
    /// Why it was forced: the same words do not force the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) force: Option<Box<str>>,
    /// What its changed slots are being released from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Origin>,
}

/// Where a release of changed slots began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The revision of the file that began it: the way from one table to another may be gone more than once.
    pub(crate) began: u64,
    pub(crate) table: Recorded,
}

/// A placement, without its seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// As the placement had it, 16 hexadecimal digits.
    pub(crate) digest: String,
    slots: u32,
    shard_size: usize,
    /// Whether inclusion is in proportion to weight.
    #[serde(default)]
    proportional: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sizes: BTreeMap<String, usize>,
    cells: Vec<Cell>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pins: Shards,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    quarantine: Shards,
}

/// Cells by tenant.
type Shards = BTreeMap<String, Vec<String>>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cell {
    id: String,
    zone: String,
    /// In thousandths.
    weight: u32,
    state: String,
}

impl Recorded {
    /// What is kept of a placement and of what it was built from.
    pub(crate) fn new(spec: &Spec, digest: Digest) -> Self {
        let cell = |cell: &CellSpec| Cell {
            id: cell.id.to_string(),
            zone: cell.zone.to_string(),
            weight: cell.weight.thousandths(),
            state: cell.state.to_string(),
        };
        let named = |shards: &BTreeMap<TenantId, Vec<CellId>>| -> Shards {
            let names = |cells: &Vec<CellId>| cells.iter().map(ToString::to_string).collect();
            shards.iter().map(|(tenant, cells)| (tenant.to_string(), names(cells))).collect()
        };
        // Whoever has the usual size is left out: most have.
        let sizes = spec.sizes.iter().filter(|(_, size)| **size != spec.shard_size);
        Self {
            digest: digest.to_string(),
            slots: spec.slots.count(),
            shard_size: spec.shard_size,
            proportional: spec.inclusion == Inclusion::Proportional,
            sizes: sizes.map(|(tenant, size)| (tenant.to_string(), *size)).collect(),
            cells: spec.cells.iter().map(cell).collect(),
            pins: named(&spec.pins),
            quarantine: named(&spec.quarantine),
        }
    }

    /// The placement, where `seed` is the one that it had. `None` where the table is another one with it, or where nothing can be
    /// made of what was kept.
    pub(crate) fn build(&self, seed: u64) -> Option<Placement> {
        let placement = Placement::build(&self.spec(seed)?).ok()?;
        (placement.digest().to_string() == self.digest).then_some(placement)
    }

    fn spec(&self, seed: u64) -> Option<Spec> {
        let alphabet = Alphabet::with_extra(EXTRA).ok()?;
        let tenant = |id: &String| TenantId::parse(id.as_bytes(), &alphabet).ok();
        let cell = |cell: &Cell| {
            Some(CellSpec {
                id: CellId::parse(&cell.id).ok()?,
                zone: ZoneId::parse(&cell.zone).ok()?,
                weight: Weight::from_thousandths(cell.weight)?,
                state: cell.state.parse().ok()?,
            })
        };
        let named = |shards: &Shards| -> Option<BTreeMap<TenantId, Vec<CellId>>> {
            let names =
                |cells: &Vec<String>| cells.iter().map(|id| CellId::parse(id).ok()).collect::<Option<_>>();
            shards.iter().map(|(id, cells)| Some((tenant(id)?, names(cells)?))).collect()
        };
        Some(Spec {
            seed,
            slots: Slots::from_count(self.slots.into())?,
            cells: self.cells.iter().map(cell).collect::<Option<_>>()?,
            inclusion: if self.proportional { Inclusion::Proportional } else { Inclusion::Weight },
            shard_size: self.shard_size,
            sizes: self.sizes.iter().map(|(id, size)| Some((tenant(id)?, *size))).collect::<Option<_>>()?,
            pins: named(&self.pins)?,
            quarantine: named(&self.quarantine)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_fleet::Fleet;

    use super::*;
    use crate::snapshot::placement_spec;

    const TEXT: &str = "fleet: f
cells:
  - { id: a, zone: z1, weight: 0.5, url: 'http://a:1' }
  - { id: b, zone: z2, url: 'http://b:1' }
  - { id: c, zone: z3, url: 'http://c:1', state: draining, until: 2030-01-01T00:00:00Z }
  - { id: d, url: 'http://d:1', state: dedicated }
  - { id: q, url: 'http://q:1', state: quarantine }
plans: { p: { sustained: 1/s, burst: 1, max_in_flight: 1 }, one: { sustained: 1/s, burst: 1, max_in_flight: 1, shard_size: 1 } }
tenant: { extra_characters: '_.~@+', unknown: p, plan_of: { lone_: one, t.1: p } }
placement: { seed: 9223372036854775807, pins: { 'x~@+': [d, a] }, quarantine: { bad: [q] } }
";

    #[test]
    fn a_placement_is_made_again_from_what_was_kept_and_the_files_own_seed() {
        let fleet = Fleet::parse(TEXT, Path::new(".")).unwrap().fleet;
        let spec = placement_spec(&fleet);
        let placement = Placement::build(&spec).unwrap();
        let recorded = Recorded::new(&spec, placement.digest());
        let accepted =
            Accepted { fleet: "f".to_owned(), revision: 3, placement: recorded, force: None, from: None };
        let text = serde_json::to_string(&accepted).unwrap();
        assert!(!text.contains("9223372036854775807") && !text.contains("t.1"), "{text}");
        let read: Accepted = serde_json::from_str(&text).unwrap();
        assert_eq!(read, accepted);
        let again = read.placement.build(spec.seed).unwrap();
        assert_eq!(again.digest(), placement.digest());
        assert!(read.placement.build(1).is_none(), "another seed makes another table");
    }
}
