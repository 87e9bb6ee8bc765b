//! The table: built once from a [`Spec`], then only read. It knows indexes of cells, and nothing of their health.

use std::collections::BTreeMap;
use std::fmt;

use cofferdam_model::{CellId, CellIndex, CellState, Digest, Shard, TenantId, Weight, ZoneId};

use crate::by_tenant::ByTenant;
use crate::checked::Checked;
use crate::digest::DigestWriter;
use crate::hash;
use crate::pool::Pool;
use crate::reason::Reason;
use crate::spec::{Inclusion, PlacementError, Slots, Spec};
use crate::table::Table;
use crate::update::{OldCell, OldTable};

/// Who has which cells. Immutable once built: a new fleet file makes a new one.
pub struct Placement {
    seed: u64,
    slots: Slots,
    inclusion: Inclusion,
    shard_size: usize,
    /// The size of the largest shard.
    width: usize,
    zone_separated: bool,
    /// Sorted; a [`CellIndex`] is a place in it.
    cells: Box<[CellId]>,
    /// By [`CellIndex`].
    weights: Box<[Weight]>,
    /// By [`CellIndex`].
    zones: Box<[ZoneId]>,
    /// By [`CellIndex`].
    states: Box<[CellState]>,
    /// `width` cells for each slot.
    table: Table,
    /// The same as if draining cells were active, where there are any; narrower where those are what makes several zones.
    before_drain: Option<Table>,
    sizes: ByTenant<usize>,
    pins: ByTenant<Box<[CellIndex]>>,
    quarantine: ByTenant<Box<[CellIndex]>>,
    digest: Digest,
}

/// Where a tenant is, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The tenant's slot, also where a pin or a quarantine overrules it.
    pub slot: u32,
    /// The tenant's cells, home first.
    pub shard: Shard<'a>,
    /// What decided the shard.
    pub reason: Reason,
}

impl Placement {
    /// Builds the table: one draw for each slot and active cell; and a second one while cells drain.
    ///
    /// # Errors
    ///
    /// Refuses a spec that makes no table; see [`PlacementError`].
    pub fn build(spec: &Spec) -> Result<Self, PlacementError> {
        Self::build_out_of(spec, None)
    }

    /// The same, byte for byte, out of the placement before: where few cells differ, it takes a few draws for each slot, and
    /// where none does, none.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_after(spec: &Spec, before: &Self) -> Result<Self, PlacementError> {
        Self::build_out_of(spec, Some(before))
    }

    fn build_out_of(spec: &Spec, before: Option<&Self>) -> Result<Self, PlacementError> {
        let (Checked { cells, width }, active) = spec.check()?;
        let drains = cells.iter().any(|cell| cell.state == CellState::Draining);
        let before_drain = drains
            .then(|| Pool::of(&cells, |cell| matches!(cell.state, CellState::Active | CellState::Draining)));
        let by_slot = |tenant: &TenantId| hash::slot_of(tenant, spec.seed, spec.slots);
        let sizes = spec.sizes.iter().map(|(tenant, size)| (by_slot(tenant), *tenant, *size));
        let none = || ByTenant::new(Vec::new());
        let names: Box<[CellId]> = cells.iter().map(|cell| cell.id.clone()).collect();
        let table = |pool: &Pool<'_>| {
            let (old, width) = (before.into_iter().flat_map(Self::old_tables), pool.width(width));
            let carried = { old }.find_map(|old| old.carried_over(spec, pool, &names, width));
            Ok(Table::new(width, carried.map_or_else(|| pool.table(spec, width), Ok)?))
        };
        let (of_active, before_drain) = (table(&active)?, before_drain.as_ref().map(table).transpose()?);
        let mut placement = Self {
            seed: spec.seed,
            slots: spec.slots,
            inclusion: spec.inclusion,
            shard_size: spec.shard_size,
            width,
            zone_separated: active.zone_separated(),
            cells: names,
            weights: cells.iter().map(|cell| cell.weight).collect(),
            zones: cells.iter().map(|cell| cell.zone.clone()).collect(),
            states: cells.iter().map(|cell| cell.state).collect(),
            table: of_active,
            before_drain,
            sizes: ByTenant::new(sizes.filter(|(_, _, size)| *size != spec.shard_size).collect()),
            pins: none(),
            quarantine: none(),
            digest: Digest(0),
        };
        placement.pins = placement.named_by_tenant(Reason::Pin, &spec.pins)?;
        placement.quarantine = placement.named_by_tenant(Reason::Quarantine, &spec.quarantine)?;
        placement.digest = placement.compute_digest();
        Ok(placement)
    }

    /// The tables that another one can be made out of, each with the cells that took part.
    fn old_tables(&self) -> Vec<OldTable<'_>> {
        let before_drain = self.before_drain.as_ref().map(|table| self.old_table(table, true));
        std::iter::once(self.old_table(&self.table, false)).chain(before_drain).collect()
    }

    fn old_table<'a>(&'a self, table: &'a Table, drains: bool) -> OldTable<'a> {
        let cell = |at: usize| {
            let state = self.states[at];
            let took_part = state == CellState::Active || (drains && state == CellState::Draining);
            let (id, zone, weight) = (&self.cells[at], &self.zones[at], self.weights[at].thousandths());
            took_part.then_some(OldCell { id, zone, weight })
        };
        let cells = (0..self.cells.len()).map(cell).collect();
        let (seed, slots, inclusion) = (self.seed, self.slots, self.inclusion);
        OldTable { seed, slots, inclusion, width: table.width(), cells, table: table.cells() }
    }

    /// The tenant's cells: its quarantine or its pin, or else one hash and one load.
    pub fn place(&self, tenant: &TenantId) -> Placed<'_> {
        let slot = self.slot_of(tenant);
        if let Some(shard) = self.quarantine.get(slot, tenant) {
            return Placed { slot, shard: Shard::new(shard), reason: Reason::Quarantine };
        }
        if let Some(shard) = self.pins.get(slot, tenant) {
            return Placed { slot, shard: Shard::new(shard), reason: Reason::Pin };
        }
        let shard = self.table.shard(slot, self.size_at(slot, tenant));
        Placed { slot, shard, reason: Reason::Slot }
    }

    /// The cells that the tenant had by its slot before cells began to drain, no more than zones; `None` where none drains.
    pub fn shard_before_drain(&self, tenant: &TenantId) -> Option<Shard<'_>> {
        let slot = self.slot_of(tenant);
        Some(self.before_drain.as_ref()?.shard(slot, self.size_at(slot, tenant)))
    }

    /// The cells that the tenant had before they began to drain; none where it does not follow the table.
    pub fn drained_of(&self, tenant: &TenantId) -> impl Iterator<Item = CellIndex> {
        let before = self.shard_before_drain(tenant).filter(|_| self.place(tenant).reason == Reason::Slot);
        let cells = before.into_iter().flat_map(|shard| shard.cells()).copied();
        cells.filter(|&cell| self.state_of(cell) == CellState::Draining)
    }

    /// How many cells the tenant has by its slot.
    pub fn size_of(&self, tenant: &TenantId) -> usize {
        self.size_at(self.slot_of(tenant), tenant)
    }

    fn size_at(&self, slot: u32, tenant: &TenantId) -> usize {
        self.sizes.get(slot, tenant).copied().unwrap_or(self.shard_size)
    }

    /// The tenant's slot, below [`slots`](Self::slots)' count.
    pub fn slot_of(&self, tenant: &TenantId) -> u32 {
        hash::slot_of(tenant, self.seed, self.slots)
    }

    /// A slot's cells, home first: as many as the usual tenant has.
    ///
    /// # Panics
    ///
    /// Where there is no such slot.
    pub fn shard_of_slot(&self, slot: u32) -> Shard<'_> {
        self.table.shard(slot, self.shard_size)
    }

    /// A slot's cells, home first: as many as the largest shard has. Smaller ones begin it.
    ///
    /// # Panics
    ///
    /// Where there is no such slot.
    pub fn largest_shard_of_slot(&self, slot: u32) -> Shard<'_> {
        self.table.shard(slot, self.width)
    }

    /// The cells, sorted by id: a [`CellIndex`] is a place in this slice.
    pub fn cells(&self) -> &[CellId] {
        &self.cells
    }

    /// The place of a cell in [`cells`](Self::cells).
    pub fn index_of(&self, id: &CellId) -> Option<CellIndex> {
        // An index has 16 bits, and so many cells at most.
        self.cells.binary_search(id).ok().map(|at| CellIndex(at as u16))
    }

    /// The cells' weights, by [`CellIndex`].
    pub(crate) fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// What a cell is there for.
    pub fn state_of(&self, cell: CellIndex) -> CellState {
        self.states[cell.get()]
    }

    /// The cells' zones, by [`CellIndex`].
    pub(crate) fn zones(&self) -> &[ZoneId] {
        &self.zones
    }

    /// The pinned tenants and their cells, home first.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (&TenantId, &[CellIndex])> {
        self.pins.iter().map(|(tenant, shard)| (tenant, &**shard))
    }

    /// Whether both maps have one seed, so that tenants have the same slots in tables of one size.
    pub(crate) fn has_seed_of(&self, other: &Self) -> bool {
        self.seed == other.seed
    }

    /// How many slots the table has.
    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// How many cells the usual tenant has.
    pub fn shard_size(&self) -> usize {
        self.shard_size
    }

    /// How many bytes the tables take: 2 for each cell of each slot's largest shard, and as much again, or less, while cells drain.
    pub fn table_bytes(&self) -> usize {
        let tables = std::iter::once(&self.table).chain(&self.before_drain);
        tables.map(|table| size_of_val(table.cells())).sum()
    }

    /// How many cells the largest shard has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Whether the cells of a slot's shard are all in different zones: true where active cells are in several. A pin may
    /// still name two cells of one zone.
    pub fn zone_separated(&self) -> bool {
        self.zone_separated
    }

    /// A digest of the table, the pins and the quarantine: XXH3-64 with seed 0 over these bytes. A number has 4 bytes, an
    /// index of a cell 2, both little-endian; a text is its length as a number, then its bytes.
    ///
    /// - the text `cofferdam placement 1`;
    /// - numbers: slots, shard size, cells;
    /// - for each cell, by id: the text of its id;
    /// - for each slot, from 0: its shard's indexes, home first;
    /// - the number of pins, and for each, by the tenant id's bytes: the text of the tenant id, then the indexes.
    ///
    /// That is so for a fleet whose cells are all active, without a quarantine, where every tenant has as many cells and inclusion
    /// is by weight.
    /// For any other
    ///
    /// - the text is `cofferdam placement 2`;
    /// - the shard size is the usual tenant's, and behind it stands the number of cells in the largest shard, of which the
    ///   table has one for each slot;
    /// - each cell's id is followed by the text of its state;
    /// - the tenant of a pin is followed by the number of its indexes;
    /// - behind the pins stands the quarantine, in the same form; and the number of tenants with a size that is not the
    ///   usual one, and for each, by the tenant id's bytes: its text, and the size; and, where it is so, the text `proportional`.
    ///
    /// Weights and zones show in the table. So does the map's seed, as soon as there are two cells; it may be secret and
    /// is not written down.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it says nothing that the first layout of digests has no words for.
    fn is_plain(&self) -> bool {
        let all_active = self.states.iter().all(|state| *state == CellState::Active);
        let by_weight = self.inclusion == Inclusion::Weight;
        all_active
            && by_weight
            && self.quarantine.is_empty()
            && self.width == self.shard_size
            && self.sizes.is_empty()
    }

    // Every number is bounded far below 2^32 by the spec's check.
    fn compute_digest(&self) -> Digest {
        let is_plain = self.is_plain();
        let mut writer = DigestWriter::new(if is_plain { 1 } else { 2 });
        writer.number(self.slots.count());
        writer.number(self.shard_size as u32);
        if !is_plain {
            writer.number(self.width as u32);
        }
        writer.number(self.cells.len() as u32);
        for (cell, state) in self.cells.iter().zip(&self.states) {
            writer.text(cell.as_str());
            if !is_plain {
                writer.text(state.as_str());
            }
        }
        writer.cells(self.table.cells());
        let mut named = |shards: &ByTenant<Box<[CellIndex]>>| {
            let by_tenant: BTreeMap<_, _> = shards.iter().collect();
            writer.number(by_tenant.len() as u32);
            for (tenant, shard) in by_tenant {
                writer.text(tenant.as_str());
                if !is_plain {
                    writer.number(shard.len() as u32);
                }
                writer.cells(shard);
            }
        };
        named(&self.pins);
        if !is_plain {
            named(&self.quarantine);
            let sizes: BTreeMap<_, _> = self.sizes.iter().collect();
            writer.number(sizes.len() as u32);
            for (tenant, size) in sizes {
                writer.text(tenant.as_str());
                writer.number(*size as u32);
            }
        }
        if self.inclusion == Inclusion::Proportional {
            writer.text("proportional");
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
            .field("pins", &self.pins.iter().len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
