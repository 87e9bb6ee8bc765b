//! Slots and the cells that each has, as one list. It knows neither tenants nor why a cell is in a slot.

use cofferdam_model::{CellIndex, Shard};

/// As many cells for each slot, home first.
pub(crate) struct Table {
    /// Cells of a slot.
    width: usize,
    /// Slot by slot, 2 bytes each.
    cells: Box<[CellIndex]>,
}

impl Table {
    /// A table of `cells`, slot by slot, `width` for each slot.
    pub(crate) fn new(width: usize, cells: Box<[CellIndex]>) -> Self {
        Self { width, cells }
    }

    /// A slot's first `size` cells; fewer where it has no more.
    ///
    /// # Panics
    ///
    /// Where there is no such slot.
    pub(crate) fn shard(&self, slot: u32, size: usize) -> Shard<'_> {
        let start = slot as usize * self.width;
        Shard::new(&self.cells[start..start + size.min(self.width)])
    }

    /// How many cells a slot has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// All of it, slot by slot.
    pub(crate) fn cells(&self) -> &[CellIndex] {
        &self.cells
    }
}
