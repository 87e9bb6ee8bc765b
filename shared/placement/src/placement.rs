//! The table: built once from a [`Spec`], then only read. It knows indexes of cells, not what state a cell is in.

use std::collections::BTreeMap;
use std::fmt;

use cofferdam_model::{CellId, CellIndex, Digest, Shard, TenantId, Weight, ZoneId};

use crate::digest::DigestWriter;
use crate::hash;
use crate::rendezvous::{Entrant, rank};
use crate::spec::{CellSpec, Checked, PlacementError, Slots, Spec};

/// Who has which cells. Immutable once built: a new fleet file makes a new one.
pub struct Placement {
    seed: u64,
    slots: Slots,
    shard_size: usize,
    zone_separated: bool,
    /// Sorted; a [`CellIndex`] is a place in it.
    cells: Box<[CellId]>,
    /// By [`CellIndex`].
    weights: Box<[Weight]>,
    /// By [`CellIndex`].
    zones: Box<[ZoneId]>,
    /// `shard_size` cells for each slot, slot by slot, 2 bytes each.
    table: Box<[CellIndex]>,
    /// Sorted by slot, then tenant: the slot is known when a pin is looked for, and compares faster than an id.
    pins: Box<[Pin]>,
    digest: Digest,
}

struct Pin {
    slot: u32,
    tenant: TenantId,
    shard: Box<[CellIndex]>,
}

/// Where a tenant is, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The tenant's slot, also where a pin overrules it.
    pub slot: u32,
    /// The tenant's cells, home first.
    pub shard: Shard<'a>,
    /// What decided the shard.
    pub reason: Reason,
}

/// What decided a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The fleet file names the tenant's cells.
    Pin,
    /// The table, by the tenant's slot.
    Slot,
}

impl Reason {
    /// The reason as output and logs write it: `pin` or `slot`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Slot => "slot",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Placement {
    /// Builds the table: one draw for each slot and cell.
    ///
    /// # Errors
    ///
    /// Refuses a spec that makes no table; see [`PlacementError`].
    pub fn build(spec: &Spec) -> Result<Self, PlacementError> {
        let checked = spec.check()?;
        let pins = pins(spec, &checked)?;
        let mut placement = Self {
            seed: spec.seed,
            slots: spec.slots,
            shard_size: spec.shard_size,
            zone_separated: checked.zone_separated(),
            cells: checked.cells.iter().map(|cell| cell.id.clone()).collect(),
            weights: checked.cells.iter().map(|cell| cell.weight).collect(),
            zones: checked.cells.iter().map(|cell| cell.zone.clone()).collect(),
            table: table(spec, &entrants(spec.seed, &checked)),
            pins,
            digest: Digest(0),
        };
        placement.digest = placement.compute_digest();
        Ok(placement)
    }

    /// The tenant's cells: its pin, or else one hash and one load.
    pub fn place(&self, tenant: &TenantId) -> Placed<'_> {
        let slot = self.slot_of(tenant);
        if !self.pins.is_empty()
            && let Ok(at) = self.pins.binary_search_by(|pin| (pin.slot, &pin.tenant).cmp(&(slot, tenant)))
        {
            return Placed { slot, shard: Shard::new(&self.pins[at].shard), reason: Reason::Pin };
        }
        Placed { slot, shard: self.shard_of_slot(slot), reason: Reason::Slot }
    }

    /// The tenant's slot, below [`slots`](Self::slots)' count.
    pub fn slot_of(&self, tenant: &TenantId) -> u32 {
        hash::slot_of(tenant, self.seed, self.slots)
    }

    /// A slot's cells, home first.
    ///
    /// # Panics
    ///
    /// Where there is no such slot.
    pub fn shard_of_slot(&self, slot: u32) -> Shard<'_> {
        let start = slot as usize * self.shard_size;
        Shard::new(&self.table[start..start + self.shard_size])
    }

    /// The cells, sorted by id: a [`CellIndex`] is a place in this slice.
    pub fn cells(&self) -> &[CellId] {
        &self.cells
    }

    /// The place of a cell in [`cells`](Self::cells).
    pub(crate) fn index_of(&self, id: &CellId) -> Option<CellIndex> {
        // An index has 16 bits, and so many cells at most.
        self.cells.binary_search(id).ok().map(|at| CellIndex(at as u16))
    }

    /// The cells' weights, by [`CellIndex`].
    pub(crate) fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// The cells' zones, by [`CellIndex`].
    pub(crate) fn zones(&self) -> &[ZoneId] {
        &self.zones
    }

    /// The pinned tenants and their cells, home first.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (&TenantId, &[CellIndex])> {
        self.pins.iter().map(|pin| (&pin.tenant, &*pin.shard))
    }

    /// Whether both maps have one seed, so that tenants have the same slots in tables of one size.
    pub(crate) fn has_seed_of(&self, other: &Self) -> bool {
        self.seed == other.seed
    }

    /// How many slots the table has.
    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// How many cells a shard has.
    pub fn shard_size(&self) -> usize {
        self.shard_size
    }

    /// Whether the cells of a slot's shard are all in different zones: true where the fleet has several. A pin may
    /// still name two cells of one zone.
    pub fn zone_separated(&self) -> bool {
        self.zone_separated
    }

    /// A digest of the table and the pins: XXH3-64 with seed 0 over these bytes. A number has 4 bytes, an index of a
    /// cell 2, both little-endian; a text is its length as a number, then its bytes.
    ///
    /// - the text `cofferdam placement 1`;
    /// - numbers: slots, shard size, cells;
    /// - for each cell, by id: the text of its id;
    /// - for each slot, from 0: its shard's indexes, home first;
    /// - the number of pins, and for each, by the tenant id's bytes: the text of the tenant id, then the indexes.
    ///
    /// Weights and zones show in the table. So does the map's seed, as soon as there are two cells; it may be secret and
    /// is not written down.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    fn compute_digest(&self) -> Digest {
        let mut writer = DigestWriter::new();
        writer.number(self.slots.count());
        // Both are bounded far below 2^32 by the spec's check.
        writer.number(self.shard_size as u32);
        writer.number(self.cells.len() as u32);
        for cell in &self.cells {
            writer.text(cell.as_str());
        }
        writer.cells(&self.table);
        let by_tenant: BTreeMap<&TenantId, &[CellIndex]> = self.pins().collect();
        writer.number(by_tenant.len() as u32);
        for (tenant, shard) in by_tenant {
            writer.text(tenant.as_str());
            writer.cells(shard);
        }
        writer.finish()
    }
}

impl fmt::Debug for Placement {
    /// Leaves out the table, which is long, and the seed, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement")
            .field("slots", &self.slots.count())
            .field("shard_size", &self.shard_size)
            .field("cells", &self.cells)
            .field("pins", &self.pins.len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

fn pins(spec: &Spec, checked: &Checked<'_>) -> Result<Box<[Pin]>, PlacementError> {
    let mut pins = Vec::with_capacity(spec.pins.len());
    for (tenant, names) in &spec.pins {
        pins.push(Pin {
            slot: hash::slot_of(tenant, spec.seed, spec.slots),
            tenant: *tenant,
            shard: checked.pin(tenant, names, spec.shard_size)?,
        });
    }
    pins.sort_by_key(|pin| (pin.slot, pin.tenant));
    Ok(pins.into())
}

fn entrants(seed: u64, checked: &Checked<'_>) -> Vec<Entrant> {
    let entrant = |(cell, index): (&&CellSpec, u16)| Entrant {
        seed: hash::cell_seed(&cell.id, seed),
        weight: cell.weight.thousandths(),
        group: checked.group(CellIndex(index)),
    };
    checked.cells.iter().zip(0..).map(entrant).collect()
}

fn table(spec: &Spec, entrants: &[Entrant]) -> Box<[CellIndex]> {
    let mut table = Vec::with_capacity(spec.slots.count() as usize * spec.shard_size);
    let mut best = Vec::with_capacity(spec.shard_size + 1);
    for slot in 0..spec.slots.count() {
        rank(slot, entrants, spec.shard_size, &mut best);
        table.extend(best.iter().map(|candidate| candidate.cell));
    }
    table.into()
}
