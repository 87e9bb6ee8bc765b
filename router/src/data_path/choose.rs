//! In which order are the shard's cells tried? Home first; what is believed down last, and never left out.

use std::sync::Arc;
use std::time::Instant;

use cofferdam_model::{CellIndex, Shard};

use super::admit::Admitted;
use super::place::Placed;
use crate::cells::Cell;

/// A request with its cells in the order in which they are tried: what forwarding demands.
#[derive(Debug)]
pub(super) struct Chosen<'v> {
    pub(super) admitted: Admitted<'v>,
    pub(super) candidates: Candidates<'v>,
}

/// The cells of one shard that have not been tried. It never yields one from outside the shard, nor one twice.
#[derive(Debug)]
pub(super) struct Candidates<'v> {
    shard: Shard<'v>,
    cells: &'v [Arc<Cell>],
    /// By place in the shard; a shard has at most 64 cells.
    tried: u64,
}

/// Prepares the order; the beliefs are asked at each step, so that they are fresh.
pub(super) fn choose<'v>(placed: Placed<'v>, cells: &'v [Arc<Cell>]) -> Chosen<'v> {
    Chosen { admitted: placed.admitted, candidates: Candidates::new(placed.shard, cells) }
}

impl<'v> Candidates<'v> {
    fn new(shard: Shard<'v>, cells: &'v [Arc<Cell>]) -> Self {
        Self { shard, cells, tried: 0 }
    }

    /// The next cell to try: the first that is up, or else the first at all.
    pub(super) fn next(&mut self, now: Instant) -> Option<CellIndex> {
        let untried = |&(place, _): &(usize, &CellIndex)| self.tried & (1 << place) == 0;
        let up = |&(_, cell): &(usize, &CellIndex)| self.cells[cell.get()].health.is_up(now);
        let cells = || self.shard.cells().iter().enumerate().take(64).filter(untried);
        let (place, cell) = cells().find(up).or_else(|| cells().next())?;
        self.tried |= 1 << place;
        Some(*cell)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use cofferdam_fleet::Fleet;

    use super::*;
    use crate::cells::Directory;

    fn cells(n: usize) -> Vec<Arc<Cell>> {
        let entries: String = (0..n)
            .map(|i| format!("  - {{ id: cell-{i}, url: \"http://127.0.0.1:{}\" }}\n", 7000 + i))
            .collect();
        let fleet = Fleet::parse(&format!("fleet: f\ncells:\n{entries}"), Path::new(".")).unwrap().fleet;
        Directory::default().adopt(&fleet.cells)
    }

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    fn order(shard: &[CellIndex], cells: &[Arc<Cell>], now: Instant) -> Vec<u16> {
        let mut candidates = Candidates::new(Shard::new(shard), cells);
        std::iter::from_fn(|| candidates.next(now)).map(|cell| cell.0).collect()
    }

    #[test]
    fn home_comes_first_and_what_is_down_last_but_never_left_out() {
        let (cells, shard, now) = (cells(4), [CellIndex(2), CellIndex(0)], Instant::now());
        assert_eq!(order(&shard, &cells, now), [2, 0]);
        cells[2].note_fault(&refused(), now);
        assert_eq!(order(&shard, &cells, now), [0, 2]);
        cells[0].note_fault(&refused(), now);
        assert_eq!(order(&shard, &cells, now), [2, 0]);
        cells[2].note_answer(true);
        assert_eq!(order(&shard, &cells, now), [2, 0]);
    }

    #[test]
    fn a_cell_that_goes_down_between_two_tries_is_not_tried_twice() {
        let (cells, shard, now) = (cells(3), [CellIndex(0), CellIndex(1), CellIndex(2)], Instant::now());
        let mut candidates = Candidates::new(Shard::new(&shard), &cells);
        assert_eq!(candidates.next(now), Some(CellIndex(0)));
        cells[0].note_fault(&refused(), now);
        cells[1].note_fault(&refused(), now);
        assert_eq!(candidates.next(now), Some(CellIndex(2)));
        assert_eq!(candidates.next(now), Some(CellIndex(1)));
        assert_eq!(candidates.next(now), None);
    }
}
