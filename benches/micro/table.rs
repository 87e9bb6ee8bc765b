//! Building a placement's table of 65,536 slots, beside filling a hash map with as many tenants' shards. It is done once for
//! each fleet file, so that ratio has no target; how much of the processor a build takes has one.

use std::collections::HashMap;
use std::hint::black_box;

use cofferdam_model::{CellId, CellIndex, CellState, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Placement, Slots, Spec};

use crate::contest::{Contest, alone};
use crate::processor;
use crate::tenants::random_tenants;

pub(crate) fn contests() -> Vec<Contest> {
    [8, 100].into_iter().map(contest).collect()
}

/// Pairs out of `n_cells` cells in one zone.
pub(crate) fn spec(n_cells: usize) -> Spec {
    let cell = |number| CellSpec {
        id: CellId::parse(&format!("cell-{number}")).expect("a plain name"),
        zone: ZoneId::parse("a").expect("a plain name"),
        weight: Weight::default(),
        state: CellState::Active,
    };
    let cells = (1..=n_cells).map(cell).collect();
    Spec { seed: 42, ..Spec::new(cells) }
}

fn contest(n_cells: usize) -> Contest {
    let spec = spec(n_cells);
    let tenants = random_tenants(65_536);
    Contest {
        name: format!("table build, {n_cells} cells"),
        ours: alone(move |_| {
            black_box(build(&spec));
        }),
        reference_name: "hash map",
        reference: alone(move |_| {
            let shards = tenants.iter().map(|tenant| (*tenant, [CellIndex(0), CellIndex(1)]));
            black_box(shards.collect::<HashMap<_, _, foldhash::fast::RandomState>>());
        }),
        target: None,
    }
}

/// How much of the processor whole builds take, and one out of the table before, from which a cell is missing.
pub(crate) fn print_processor_times() {
    let small = spec(100);
    processor::print("table build, 100 cells, 65536 slots", Some(100), || build(&small));
    let large = Spec { slots: Slots::Pow20, ..spec(1000) };
    processor::print("table build, 1000 cells, 1048576 slots", None, || build(&large));
    let before = build(&Spec { slots: Slots::Pow20, ..spec(999) });
    let one_more = || Placement::build_after(&large, &before).expect("the cells have names of their own");
    processor::print("the same out of the table of 999 cells", None, one_more);
}

pub(crate) fn build(spec: &Spec) -> Placement {
    Placement::build(spec).expect("the cells have names of their own")
}
