//! A table that is carried over from the one before is byte for byte the one that is made anew.

use cofferdam_model::{CellState, Weight, ZoneId};
use cofferdam_placement::{Placement, Slots, Spec};
use proptest::prelude::*;

use crate::fleets::{any_fleet, build, cell, cell_id, equal, tenant, zoned};

/// Both have the same bytes, in every table that they have.
fn same(carried: &Placement, anew: &Placement) -> Result<(), TestCaseError> {
    prop_assert_eq!(carried.digest(), anew.digest());
    for slot in 0..anew.slots().count() {
        prop_assert_eq!(carried.largest_shard_of_slot(slot), anew.largest_shard_of_slot(slot));
    }
    for n in 0..500 {
        let id = tenant(&format!("tenant-{n}"));
        prop_assert_eq!(carried.shard_before_drain(&id), anew.shard_before_drain(&id));
    }
    Ok(())
}

/// One thing that happens to a fleet.
#[derive(Debug, Clone)]
enum Step {
    Joins(u32, usize),
    Leaves(prop::sample::Index),
    Weighs(prop::sample::Index, u32),
    Becomes(prop::sample::Index, CellState),
    Moves(prop::sample::Index, usize),
    Sizes(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let any = any::<prop::sample::Index>;
    let state = (0..5_usize).prop_map(|at| CellState::ALL[at]);
    prop_oneof![
        (1..5000_u32, 0..3_usize).prop_map(|(weight, zone)| Step::Joins(weight, zone)),
        any().prop_map(Step::Leaves),
        (any(), 1..5000_u32).prop_map(|(which, weight)| Step::Weighs(which, weight)),
        (any(), state).prop_map(|(which, state)| Step::Becomes(which, state)),
        (any(), 0..3_usize).prop_map(|(which, zone)| Step::Moves(which, zone)),
        (1..=3_usize).prop_map(Step::Sizes),
    ]
}

fn taken(mut spec: Spec, step: &Step, number: usize) -> Spec {
    let at = |which: &prop::sample::Index| which.index(spec.cells.len());
    match step {
        Step::Joins(weight, zone) => {
            // It sorts before, between or behind the others.
            let name = [format!("a-{number}"), format!("cell-b{number}"), format!("z-{number}")];
            spec.cells.push(cell(&name[number % 3], &format!("zone-{zone}"), *weight));
        }
        Step::Leaves(which) => drop(spec.cells.remove(at(which))),
        Step::Weighs(which, weight) => {
            let at = at(which);
            spec.cells[at].weight = Weight::from_thousandths(*weight).unwrap();
        }
        Step::Becomes(which, state) => {
            let at = at(which);
            spec.cells[at].state = *state;
        }
        Step::Moves(which, zone) => {
            let at = at(which);
            spec.cells[at].zone = ZoneId::parse(&format!("zone-{zone}")).unwrap();
        }
        Step::Sizes(size) => spec.shard_size = *size,
    }
    spec
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_table_carried_over_step_by_step_is_the_one_made_anew(
        spec in any_fleet(),
        steps in prop::collection::vec((any_step(), any::<bool>()), 1..8),
    ) {
        let mut running = build(&spec);
        let mut spec = spec;
        for (number, (step, is_offered)) in steps.iter().enumerate() {
            let next = taken(spec.clone(), step, number);
            // What makes no table is no step.
            let Ok(anew) = Placement::build(&next) else { continue };
            let carried = Placement::build_after(&next, &running).unwrap();
            same(&carried, &anew)?;
            spec = next;
            // Some files come two steps later than what runs.
            if *is_offered {
                running = carried;
            }
        }
    }

    #[test]
    fn one_cell_more_or_less_of_many_is_carried_over(n in 20..60_usize, at in 0..20_usize, seed: u64) {
        let cells = (0..n).map(|i| cell(&format!("cell-{i}"), &format!("zone-{}", i % 4), 1000));
        let many = Spec { seed, ..Spec::new(cells.collect()) };
        let mut fewer = many.clone();
        fewer.cells.remove(at);
        let (whole, part) = (build(&many), build(&fewer));
        same(&Placement::build_after(&many, &part).unwrap(), &whole)?;
        same(&Placement::build_after(&fewer, &whole).unwrap(), &part)?;
    }
}

#[test]
fn what_every_draw_hangs_on_is_made_anew() {
    let old = build(&equal(8));
    for new in [
        Spec { seed: 1, ..equal(8) },
        Spec { slots: Slots::Pow20, ..equal(8) },
        Spec { shard_size: 3, ..equal(8) },
        zoned(&[4, 4]),
        equal(2),
    ] {
        same(&Placement::build_after(&new, &old).unwrap(), &build(&new)).unwrap();
    }
}

#[test]
fn pins_sizes_and_names_are_the_new_ones() {
    let mut new = equal(9);
    new.pins.insert(tenant("acme"), vec![cell_id("cell-i"), cell_id("cell-a")]);
    new.sizes.insert(tenant("globex"), 1);
    let carried = Placement::build_after(&new, &build(&equal(8))).unwrap();
    same(&carried, &build(&new)).unwrap();
    assert!(Placement::build_after(&equal(0), &carried).is_err());
}
