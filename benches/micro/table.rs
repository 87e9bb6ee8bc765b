//! Building a placement's table of 65,536 slots, beside filling a hash map with as many tenants' shards. It is done once for
//! each fleet file, so it has no target.

use std::collections::HashMap;
use std::hint::black_box;

use cofferdam_model::{CellId, CellIndex, CellState, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Placement, Spec};

use crate::contest::{Contest, alone};
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
            black_box(Placement::build(&spec).expect("the cells have names of their own"));
        }),
        reference_name: "hash map",
        reference: alone(move |_| {
            let shards = tenants.iter().map(|tenant| (*tenant, [CellIndex(0), CellIndex(1)]));
            black_box(shards.collect::<HashMap<_, _, foldhash::fast::RandomState>>());
        }),
        target: None,
    }
}
