//! Where a tenant is: a placement's answer beside one look-up in a plain hash map of the same tenants, and in a large fleet
//! beside a small one.

use std::collections::HashMap;
use std::hint::black_box;

use cofferdam_placement::Placement;

use crate::contest::{Contest, alone};
use crate::table::spec;
use crate::tenants::random_tenants;

/// Few tenants, whose map stays in the nearest caches, and many.
const N_TENANTS: [usize; 2] = [1024, 65_536];

pub(crate) fn contests() -> Vec<Contest> {
    let fleets = [8, 100].into_iter();
    let beside_a_map = fleets.flat_map(|n_cells| N_TENANTS.map(|n_tenants| contest(n_cells, n_tenants)));
    beside_a_map.chain(N_TENANTS.map(large_beside_small)).collect()
}

/// A table of as many slots costs a look-up the same, however many cells are in it.
fn large_beside_small(n_tenants: usize) -> Contest {
    let look_up = |n_cells| {
        let tenants = random_tenants(n_tenants);
        let placement = Placement::build(&spec(n_cells)).expect("the cells have names of their own");
        alone(move |run| {
            black_box(placement.place(&tenants[run % n_tenants]));
        })
    };
    Contest {
        name: format!("look-up, 1000 cells, {n_tenants} tenants"),
        ours: look_up(1000),
        reference_name: "8 cells",
        reference: look_up(8),
        target: Some(1.2),
    }
}

fn contest(n_cells: usize, n_tenants: usize) -> Contest {
    let tenants = random_tenants(n_tenants);
    let placement = Placement::build(&spec(n_cells)).expect("the cells have names of their own");
    let shard_of = |tenant| {
        let cells = placement.place(tenant).shard.cells();
        [cells[0], cells[1]]
    };
    // The standard library's own hash would be the easier reference.
    let map: HashMap<_, _, foldhash::fast::RandomState> =
        tenants.iter().map(|tenant| (*tenant, shard_of(tenant))).collect();
    let same_tenants = tenants.clone();
    Contest {
        name: format!("look-up, {n_cells} cells, {n_tenants} tenants"),
        ours: alone(move |run| {
            black_box(placement.place(&tenants[run % n_tenants]));
        }),
        reference_name: "hash map",
        reference: alone(move |run| {
            black_box(map.get(&same_tenants[run % n_tenants]));
        }),
        target: Some(1.0),
    }
}
