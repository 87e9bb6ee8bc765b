//! What a placement is built from, and what is refused. It knows neither how the fleet file is written nor the table.

use std::collections::BTreeMap;

use cofferdam_model::{CellId, CellIndex, TenantId, Weight, ZoneId};

/// The most cells of a fleet: an index has 16 bits.
pub const MAX_CELLS: usize = 65_535;

/// The most cells of a shard. It bounds the table: 2 bytes x 64 x 2^20 slots are 128 MiB.
pub const MAX_SHARD_SIZE: usize = 64;

/// A cell, as far as placement is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpec {
    /// Its immutable name.
    pub id: CellId,
    /// The failure domain that it is in.
    pub zone: ZoneId,
    /// Its share of homes beside the others'.
    pub weight: Weight,
}

/// How many slots a table has. Changing it moves everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slots {
    /// 65,536.
    #[default]
    Pow16,
    /// 1,048,576: worth it above some 128 cells.
    Pow20,
}

impl Slots {
    /// The two counts that exist: 65,536 and 1,048,576.
    pub fn from_count(count: u64) -> Option<Self> {
        [Self::Pow16, Self::Pow20].into_iter().find(|slots| u64::from(slots.count()) == count)
    }

    /// How many slots there are.
    pub fn count(self) -> u32 {
        1 << self.bits()
    }

    /// How many bits of a tenant's hash choose the slot.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pow16 => 16,
            Self::Pow20 => 20,
        }
    }
}

/// Everything that decides who has which cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The map's seed. It may be secret, so that nobody can choose tenant ids that collide.
    pub seed: u64,
    /// How many slots the table has.
    pub slots: Slots,
    /// The cells, in any order: they are sorted by id.
    pub cells: Vec<CellSpec>,
    /// How many cells a shard has.
    pub shard_size: usize,
    /// The tenants that do not follow the table, and their shards, home first.
    pub pins: BTreeMap<TenantId, Vec<CellId>>,
}

/// Why a [`Spec`] makes no placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is nowhere to place a tenant.
    #[error("fleet has no cells")]
    NoCells,
    /// More cells than an index can name.
    #[error("{0} cells exceed {MAX_CELLS}")]
    TooManyCells(usize),
    /// Two cells have one id.
    #[error("cell {0} is there twice")]
    DuplicateCell(CellId),
    /// A shard without cells.
    #[error("shard size 0 places nobody")]
    EmptyShard,
    /// A table of such shards would be too large.
    #[error("shard size {0} exceeds {MAX_SHARD_SIZE}")]
    ShardTooLarge(usize),
    /// Not that many cells.
    #[error("shard size {size} exceeds {cells} cells")]
    ShardExceedsCells {
        /// The size asked for.
        size: usize,
        /// How many cells there are.
        cells: usize,
    },
    /// Not that many zones, and a shard has at most one cell in each.
    #[error("shard size {size} exceeds {zones} zones")]
    ShardExceedsZones {
        /// The size asked for.
        size: usize,
        /// How many zones there are: at least two.
        zones: usize,
    },
    /// A pin names a cell that the fleet does not have.
    #[error("pin of {tenant} names the unknown cell {cell}")]
    PinOfUnknownCell {
        /// Whose pin.
        tenant: TenantId,
        /// The name that no cell has.
        cell: CellId,
    },
    /// A pin is shorter or longer than a shard.
    #[error("pin of {tenant} has {cells} cells, and a shard {size}")]
    PinLength {
        /// Whose pin.
        tenant: TenantId,
        /// How many cells it names.
        cells: usize,
        /// How many a shard has.
        size: usize,
    },
    /// A pin names a cell twice.
    #[error("pin of {tenant} names the cell {cell} twice")]
    PinRepeatsCell {
        /// Whose pin.
        tenant: TenantId,
        /// The cell named twice.
        cell: CellId,
    },
}

/// A spec's cells and zones, sorted and found good: the order of the file decides nothing.
pub(crate) struct Checked<'a> {
    pub(crate) cells: Vec<&'a CellSpec>,
    zones: Vec<&'a ZoneId>,
}

impl Spec {
    /// Refuses everything that makes no table. Pins are checked one by one, by [`Checked::pin`].
    pub(crate) fn check(&self) -> Result<Checked<'_>, PlacementError> {
        let (count, size) = (self.cells.len(), self.shard_size);
        if count == 0 {
            return Err(PlacementError::NoCells);
        }
        if count > MAX_CELLS {
            return Err(PlacementError::TooManyCells(count));
        }
        let mut cells: Vec<&CellSpec> = self.cells.iter().collect();
        cells.sort_by_key(|cell| &cell.id);
        if let Some(twice) = cells.windows(2).find(|two| two[0].id == two[1].id) {
            return Err(PlacementError::DuplicateCell(twice[0].id.clone()));
        }
        let mut zones: Vec<&ZoneId> = cells.iter().map(|cell| &cell.zone).collect();
        zones.sort();
        zones.dedup();
        match size {
            0 => Err(PlacementError::EmptyShard),
            _ if size > count => Err(PlacementError::ShardExceedsCells { size, cells: count }),
            _ if zones.len() > 1 && size > zones.len() => {
                Err(PlacementError::ShardExceedsZones { size, zones: zones.len() })
            }
            _ if size > MAX_SHARD_SIZE => Err(PlacementError::ShardTooLarge(size)),
            _ => Ok(Checked { cells, zones }),
        }
    }
}

impl Checked<'_> {
    /// Whether there are several zones, so that a shard takes at most one cell of each.
    pub(crate) fn zone_separated(&self) -> bool {
        self.zones.len() > 1
    }

    /// What a shard has at most one cell of: the cell's zone or, in a fleet of one zone, the cell itself.
    pub(crate) fn group(&self, index: CellIndex) -> u16 {
        let zone = &self.cells[index.get()].zone;
        if self.zone_separated() { self.zones.partition_point(|&other| other < zone) as u16 } else { index.0 }
    }

    /// A pin's cells as indexes, home first.
    pub(crate) fn pin(
        &self,
        tenant: &TenantId,
        names: &[CellId],
        size: usize,
    ) -> Result<Box<[CellIndex]>, PlacementError> {
        if names.len() != size {
            return Err(PlacementError::PinLength { tenant: *tenant, cells: names.len(), size });
        }
        let mut shard = Vec::with_capacity(size);
        for name in names {
            let Ok(at) = self.cells.binary_search_by_key(&name, |cell| &cell.id) else {
                return Err(PlacementError::PinOfUnknownCell { tenant: *tenant, cell: name.clone() });
            };
            // The check on MAX_CELLS came first, so the cast loses nothing.
            let index = CellIndex(at as u16);
            if shard.contains(&index) {
                return Err(PlacementError::PinRepeatsCell { tenant: *tenant, cell: name.clone() });
            }
            shard.push(index);
        }
        Ok(shard.into())
    }
}
