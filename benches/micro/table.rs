//! Building a placement's table of 65,536 slots, beside filling a hash map with as many tenants' shards. It is done once for
//! each fleet file, so that ratio has no target; how much of the processor a build takes has one.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use cofferdam_model::{CellId, CellIndex, CellState, Weight, ZoneId};
use cofferdam_placement::{CellSpec, Placement, Slots, Spec};
use rustix::time::{ClockId, clock_gettime};

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

/// How long this thread had the processor for whole builds, and for one out of the table before, from which a cell is missing.
/// The least of three, which is what the machine did least beside.
pub(crate) fn print_processor_times() {
    let built = |spec: &Spec| Placement::build(spec).expect("the cells have names of their own");
    let print = |what: &str, target: &str, times: [Duration; 3]| {
        let least = times.into_iter().min().unwrap_or_default();
        println!("{what}: {:.0} ms of CPU{target}", 1000.0 * least.as_secs_f64());
    };
    let small = spec(100);
    print(
        "table build, 100 cells, 65536 slots",
        " (target 100)",
        [(); 3].map(|()| processor_time(|| built(&small))),
    );
    let large = Spec { slots: Slots::Pow20, ..spec(1000) };
    print("table build, 1000 cells, 1048576 slots", "", [(); 3].map(|()| processor_time(|| built(&large))));
    let before = built(&Spec { slots: Slots::Pow20, ..spec(999) });
    let one_more = || Placement::build_after(&large, &before).expect("the cells have names of their own");
    print("the same out of the table of 999 cells", "", [(); 3].map(|()| processor_time(one_more)));
}

fn processor_time<T>(act: impl FnOnce() -> T) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let begun = now();
    black_box(act());
    now() - begun
}
