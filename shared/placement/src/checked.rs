//! A spec found good: which tables can be made at all. It names nobody's cells.

use cofferdam_model::CellState;

use crate::pool::Pool;
use crate::spec::{CellSpec, Inclusion, MAX_CELLS, MAX_SHARD_SIZE, PlacementError, Spec};

/// A spec's cells, sorted and found good: the order of the file decides nothing.
pub(crate) struct Checked<'a> {
    /// Every cell, by id.
    pub(crate) cells: Vec<&'a CellSpec>,
    /// The size of the largest shard.
    pub(crate) width: usize,
}

impl Spec {
    /// Refuses everything that makes no table. What is named for single tenants is checked once there is one.
    pub(crate) fn check(&self) -> Result<(Checked<'_>, Pool<'_>), PlacementError> {
        let count = self.cells.len();
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
        let active = Pool::of(&cells, |cell| cell.state == CellState::Active);
        let sizes = || self.sizes.values().copied().chain([self.shard_size]);
        if sizes().any(|size| size == 0) {
            return Err(PlacementError::EmptyShard);
        }
        let other = sizes().find(|size| *size != 2);
        if let Some(size) = other.filter(|_| self.inclusion == Inclusion::Proportional) {
            return Err(PlacementError::ProportionalSize(size));
        }
        let (size, n_cells, zones) = (sizes().max().unwrap_or(0), active.n_cells(), active.n_zones());
        match size {
            _ if n_cells == 0 => Err(PlacementError::NoActiveCells),
            _ if size > n_cells => Err(PlacementError::ShardExceedsCells { size, cells: n_cells }),
            _ if zones > 1 && size > zones => Err(PlacementError::ShardExceedsZones { size, zones }),
            _ if size > MAX_SHARD_SIZE => Err(PlacementError::ShardTooLarge(size)),
            _ => Ok((Checked { cells, width: size }, active)),
        }
    }
}
