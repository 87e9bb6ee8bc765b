//! What a placement is built from, and what is refused. It knows neither how the fleet file is written nor the table.

use std::collections::BTreeMap;

use cofferdam_model::{CellId, CellState, TenantId, Weight, ZoneId};

use crate::reason::Reason;

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
    /// Whether it is in the table, and who may be sent to it besides.
    pub state: CellState,
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

/// How often a cell is in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inclusion {
    /// As often as cells of such weights come to be the best ones: homes are in proportion to weight, and shards less so. What
    /// changes in one cell moves what it must.
    #[default]
    Weight,
    /// In proportion to weight, as homes are; for shards of two. What changes in one cell moves a little more than it must.
    Proportional,
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
    /// How often a cell is in a shard.
    pub inclusion: Inclusion,
    /// How many cells a tenant has, unless `sizes` says otherwise.
    pub shard_size: usize,
    /// Tenants with shards of another size.
    pub sizes: BTreeMap<TenantId, usize>,
    /// Tenants that do not follow the table, and their shards, home first: active or dedicated cells, as many as the
    /// tenant's shard has.
    pub pins: BTreeMap<TenantId, Vec<CellId>>,
    /// Tenants that are kept apart from all others, and their shards, home first: quarantine cells, however many.
    pub quarantine: BTreeMap<TenantId, Vec<CellId>>,
}

impl Spec {
    /// Pairs out of these cells, with seed 0 and 65,536 slots, and nobody who does not follow the table.
    pub fn new(cells: Vec<CellSpec>) -> Self {
        let (slots, inclusion, sizes, pins, quarantine) = Default::default();
        Self { seed: 0, slots, cells, inclusion, shard_size: 2, sizes, pins, quarantine }
    }
}

/// Why a [`Spec`] makes no placement, or a tenant's cells cannot be named so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is nowhere to place a tenant.
    #[error("fleet has no cells")]
    NoCells,
    /// There are cells, and none that the table may give tenants to.
    #[error("fleet has no active cells")]
    NoActiveCells,
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
    #[error("shard size {size} exceeds {cells} active cells")]
    ShardExceedsCells {
        /// The size asked for.
        size: usize,
        /// How many active cells there are.
        cells: usize,
    },
    /// Not that many zones, and a shard has at most one cell in each.
    #[error("shard size {size} exceeds {zones} zones of active cells")]
    ShardExceedsZones {
        /// The size asked for.
        size: usize,
        /// How many zones there are: at least two.
        zones: usize,
    },
    /// Inclusion in proportion draws two cells.
    #[error("inclusion in proportion is for shards of two, and not of {0}")]
    ProportionalSize(usize),
    /// A cell would have to be in more shards than there are.
    #[error("{0} has more than half of all weight: no pairs have it in proportion")]
    ProportionalWeight(String),
    /// A pin or a quarantine names a cell that the fleet does not have.
    #[error("{of} of {tenant} names the unknown cell {cell}")]
    NamesUnknownCell {
        /// Which of both.
        of: Reason,
        /// Whose.
        tenant: TenantId,
        /// The name that no cell has.
        cell: CellId,
    },
    /// A pin or a quarantine names a cell that is there for something else.
    #[error("{of} of {tenant} names cell {cell}, which is {state}")]
    NamesCellInState {
        /// Which of both.
        of: Reason,
        /// Whose.
        tenant: TenantId,
        /// Which cell.
        cell: CellId,
        /// What it is there for.
        state: CellState,
    },
    /// A pin or a quarantine names a cell twice.
    #[error("{of} of {tenant} names the cell {cell} twice")]
    NamesCellTwice {
        /// Which of both.
        of: Reason,
        /// Whose.
        tenant: TenantId,
        /// The cell named twice.
        cell: CellId,
    },
    /// A pin is shorter or longer than the tenant's shard.
    #[error("pin of {tenant} has {cells} cells, and a shard {size}")]
    PinLength {
        /// Whose pin.
        tenant: TenantId,
        /// How many cells it names.
        cells: usize,
        /// How many its shard has.
        size: usize,
    },
    /// A quarantine names no cell, or more than a shard can have.
    #[error("quarantine of {tenant} has {cells} cells: 1 to {MAX_SHARD_SIZE} are possible")]
    QuarantineLength {
        /// Whose.
        tenant: TenantId,
        /// How many cells it names.
        cells: usize,
    },
}
