//! The cells that a fleet has for quarantine, and how many tenants are kept on each.

use cofferdam_model::{CellId, CellIndex, CellState};

use super::word::Word;
use crate::snapshot::Snapshot;

/// Cells for quarantine, by their ids, each with the number of tenants that the fleet file and words name it for.
#[derive(Debug)]
pub(super) struct Wards(Vec<(CellIndex, usize)>);

impl Wards {
    /// Those of `snapshot`, with what is in force while routers run.
    pub(super) fn new<'w>(snapshot: &Snapshot, words: impl Iterator<Item = &'w Word>) -> Self {
        let placement = &snapshot.placement;
        let mut n_tenants = vec![0; placement.cells().len()];
        let by_file =
            snapshot.fleet.placement.quarantine.iter().flat_map(|named| named.cells.iter().copied());
        let said = words.flat_map(|word| &word.to);
        let said = said.filter_map(|name| placement.index_of(&CellId::parse(name).ok()?));
        for cell in by_file.chain(said) {
            n_tenants[cell.get()] += 1;
        }
        let all = (0..).map(CellIndex).zip(n_tenants);
        Self(all.filter(|(cell, _)| placement.state_of(*cell) == CellState::Quarantine).collect())
    }

    /// At most `n` of them for a tenant that `had` these lately: its own first, since whatever it does there is done, then those
    /// with the fewest tenants, and of as many the one whose id comes first.
    pub(super) fn choose(&self, snapshot: &Snapshot, n: usize, had: &[String]) -> Vec<CellIndex> {
        let mut all = self.0.clone();
        let is_new = |cell: &CellIndex| {
            let id = snapshot.placement.cells()[cell.get()].as_str();
            !had.iter().any(|had| had == id)
        };
        all.sort_by_key(|(cell, n_tenants)| (is_new(cell), *n_tenants, cell.0));
        all.into_iter().take(n).map(|(cell, _)| cell).collect()
    }
}
