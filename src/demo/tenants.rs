//! The computed side: who is in the demonstration, and who shares all cells with a bad tenant. It reads the same
//! fleet file and builds the same table as the router, and never sees a request.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};
use cofferdam_fleet::Fleet;
use cofferdam_model::{Alphabet, CellIndex, TenantId};
use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;

/// How many names are tried. 56 places filled at random take about 260.
const MAX_WALK: u32 = 100_000;

/// The table that a router builds from a fleet file.
pub(crate) fn placement(file: &Path) -> anyhow::Result<Placement> {
    let fleet = Fleet::load(file)?.fleet;
    Ok(Placement::build(&placement_spec(&fleet))?)
}

/// A tenant by name.
pub(crate) fn named(name: &str) -> anyhow::Result<TenantId> {
    TenantId::parse(name.as_bytes(), &Alphabet::default())
        .with_context(|| format!("{name:?} names no tenant"))
}

/// Walks `tenant-1`, `tenant-2`, ... until each pair of cells has two tenants, one at home on each of the two.
pub(crate) fn walk(placement: &Placement) -> anyhow::Result<Vec<TenantId>> {
    let n_cells = placement.cells().len();
    let n_wanted = n_cells * n_cells.saturating_sub(1);
    let mut taken: HashSet<Vec<CellIndex>> = HashSet::with_capacity(n_wanted);
    let mut tenants = Vec::with_capacity(n_wanted);
    for number in 1..=MAX_WALK {
        let tenant = named(&format!("tenant-{number}"))?;
        // Two cells in another order are another home on the same pair.
        if taken.insert(placement.place(&tenant).shard.cells().to_vec()) {
            tenants.push(tenant);
        }
        if tenants.len() == n_wanted {
            return Ok(tenants);
        }
    }
    bail!("{MAX_WALK} tenants fill {} of {n_wanted} pairs and homes", tenants.len())
}

/// The tenants that have no cell which `bad` does not have too.
pub(crate) fn covered(placement: &Placement, tenants: &[TenantId], bad: &TenantId) -> Vec<TenantId> {
    covered_by(placement, tenants, placement.place(bad).shard.cells())
}

/// The same where `bad` is kept to its home cell: itself, and the tenants that have no other cell than that.
pub(crate) fn covered_by_home(placement: &Placement, tenants: &[TenantId], bad: &TenantId) -> Vec<TenantId> {
    let home = &placement.place(bad).shard.cells()[..1];
    [*bad].into_iter().chain(covered_by(placement, tenants, home)).collect()
}

fn covered_by(placement: &Placement, tenants: &[TenantId], lost: &[CellIndex]) -> Vec<TenantId> {
    let is_covered =
        |tenant: &&TenantId| placement.place(tenant).shard.cells().iter().all(|cell| lost.contains(cell));
    tenants.iter().filter(is_covered).copied().collect()
}
