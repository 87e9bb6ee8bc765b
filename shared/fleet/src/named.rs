//! `placement.pins` and `placement.quarantine`: tenants whose cells the file names.

use cofferdam_model::{Alphabet, CellIndex, CellState, TenantId};

use crate::cells::Cells;
use crate::node::Node;
use crate::tenant::read_tenant;

/// A tenant whose cells the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The tenant.
    pub tenant: TenantId,
    /// Its cells, home first, distinct. Of a pin active or dedicated ones, as many as the tenant's shard has; of a
    /// quarantine quarantine cells, at least one.
    pub cells: Vec<CellIndex>,
}

/// What is named, and which cells it may name.
pub(crate) struct Kind {
    name: &'static str,
    done: &'static str,
    cells: &'static [CellState],
}

/// Tenants with cells of their own choosing.
pub(crate) const PIN: Kind =
    Kind { name: "pin", done: "pinned", cells: &[CellState::Active, CellState::Dedicated] };

/// Tenants that are kept apart.
pub(crate) const QUARANTINE: Kind =
    Kind { name: "quarantine", done: "named", cells: &[CellState::Quarantine] };

/// What names are resolved by.
pub(crate) struct Naming<'a, 'd> {
    pub(crate) cells: &'a Cells<'d>,
    pub(crate) alphabet: &'a Alphabet,
}

impl Naming<'_, '_> {
    /// The named tenants, sorted; `size_of` says how many cells a tenant has to be given, where that is fixed.
    pub(crate) fn read(
        &self,
        node: &Node<'_>,
        kind: &Kind,
        size_of: impl Fn(&TenantId) -> Option<u16>,
    ) -> Vec<Pin> {
        let mut all = Vec::new();
        for entry in node.entries("a map from tenants to their cells") {
            let tenant = read_tenant(&entry, self.alphabet);
            let nodes = entry.value.filled_list("a list of cells, home first");
            let n_named = nodes.len();
            let size = tenant.as_ref().and_then(&size_of);
            if let Some(size) = size.filter(|size| n_named > 0 && n_named != usize::from(*size)) {
                let name = kind.name;
                entry
                    .value
                    .mark
                    .refuse(format_args!("a {name} of {n_named} does not match shard size {size}"));
            }
            let mut cells = Vec::with_capacity(n_named);
            for node in nodes {
                let Some(cell) = self.resolve(&node, kind) else { continue };
                if cells.contains(&cell) {
                    let id = &self.cells.sorted[cell.get()].id;
                    node.mark.refuse(format_args!("cell {id} is {} twice", kind.done));
                }
                cells.push(cell);
            }
            all.extend(tenant.map(|tenant| Pin { tenant, cells }));
        }
        all.sort_by_key(|pin| pin.tenant);
        all
    }

    fn resolve(&self, node: &Node<'_>, kind: &Kind) -> Option<CellIndex> {
        let index = self.cells.resolve(node)?;
        let cell = &self.cells.sorted[index.get()];
        if !kind.cells.contains(&cell.state) {
            let may: Vec<_> = kind.cells.iter().map(|state| state.as_str()).collect();
            let (name, may) = (kind.name, may.join(" and "));
            node.mark
                .refuse(format_args!("cell {} is {}: a {name} may name {may} cells", cell.id, cell.state));
        }
        Some(index)
    }
}
