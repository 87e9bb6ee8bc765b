//! A million simulated tenants in one trial, the table that places them included, on one core.

use cofferdam_placement::Simulation;

use crate::processor;
use crate::table::{build, spec};

/// How much of the processor they take.
pub(crate) fn print_processor_times() {
    let simulation = Simulation { tenants: 1_000_000, bad: 1, seed: 42 };
    for n_cells in [8, 100] {
        let what = format!("1000000 simulated tenants, {n_cells} cells");
        processor::print(&what, Some(10_000), || simulation.trial(&build(&spec(n_cells)), 0));
    }
}
