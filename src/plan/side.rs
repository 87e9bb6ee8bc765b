//! One side of the comparison: a fleet file with its table.

use std::path::Path;

use cofferdam_fleet::Fleet;
use cofferdam_placement::{Placement, Sets};
use cofferdam_router::placement_spec;

/// One side of the comparison.
pub(super) struct Side {
    pub(super) fleet: Fleet,
    pub(super) placement: Placement,
    pub(super) sets: Sets,
}

impl Side {
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        let fleet = Fleet::load(path)?.fleet;
        let placement = Placement::build(&placement_spec(&fleet))?;
        let sets = Sets::of(&placement);
        Ok(Self { fleet, placement, sets })
    }
}
