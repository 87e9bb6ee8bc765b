//! Who is in the table, who may be named beside it, and that a larger shard begins with a smaller one.

use cofferdam_model::{CellIndex, CellState, Shard};
use cofferdam_placement::{Placement, Reason, Spec};
use proptest::prelude::*;

use crate::counting::{moved, shards};
use crate::fleets::{any_fleet, build, cell, cell_id, equal, name, tenant, zoned};

/// The fleet with its `at`-th cell in `state`.
fn with(mut spec: Spec, at: usize, state: CellState) -> Spec {
    spec.cells[at].state = state;
    spec
}

fn without(mut spec: Spec, at: usize) -> Spec {
    spec.cells.remove(at);
    spec
}

fn names(placement: &Placement, shard: Shard<'_>) -> Vec<String> {
    shard.cells().iter().map(|cell| placement.cells()[cell.get()].to_string()).collect()
}

/// Eight active cells, two that are dedicated, one for quarantine and one that is disabled.
fn with_others() -> Spec {
    let mut spec = equal(8);
    for (id, state) in [
        ("big-1", CellState::Dedicated),
        ("big-2", CellState::Dedicated),
        ("ward", CellState::Quarantine),
        ("broken", CellState::Disabled),
    ] {
        spec.cells.push(cell(id, "zone-1", 1000));
        spec.cells.last_mut().unwrap().state = state;
    }
    spec
}

fn refusal(spec: &Spec) -> String {
    Placement::build(spec).unwrap_err().to_string()
}

#[test]
fn a_cell_that_is_not_active_is_in_no_slot_and_moves_what_its_removal_moves() {
    let gone = build(&without(equal(8), 3));
    for state in CellState::ALL.into_iter().filter(|state| *state != CellState::Active) {
        let out = build(&with(equal(8), 3, state));
        assert!(shards(&out).eq(shards(&gone)), "{state}");
        assert_eq!(moved(&build(&equal(8)), &out), moved(&build(&equal(8)), &gone));
        assert_ne!(out.digest(), gone.digest());
    }
}

#[test]
fn every_state_has_a_digest_of_its_own() {
    let digests = CellState::ALL.map(|state| build(&with(equal(8), 3, state)).digest());
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "{i}");
    }
}

#[test]
fn before_the_drain_is_the_table_with_draining_cells_as_active_ones() {
    let whole = build(&equal(8));
    let drains = build(&with(equal(8), 3, CellState::Draining));
    let mut n_before = 0;
    for id in (0..500).map(|n| tenant(&format!("tenant-{n}"))) {
        let before = drains.shard_before_drain(&id).unwrap();
        assert_eq!(before, whole.place(&id).shard);
        n_before += usize::from(before.cells().contains(&CellIndex(3)));
        assert!(!drains.place(&id).shard.cells().contains(&CellIndex(3)));
        assert_eq!(whole.shard_before_drain(&id), None);
    }
    assert!(n_before > 50, "{n_before}");
}

#[test]
fn before_the_drain_a_slot_had_no_more_cells_than_there_were_zones() {
    let mut spec = with(zoned(&[3, 1]), 3, CellState::Draining);
    spec.shard_size = 3;
    // As it was: a shard of three was not possible in two zones.
    let whole = build(&Spec { shard_size: 2, ..with(spec.clone(), 3, CellState::Active) });
    let drains = build(&spec);
    let mut slots = Vec::new();
    for id in (0..500).map(|n| tenant(&format!("tenant-{n}"))) {
        assert_eq!(drains.shard_before_drain(&id), Some(whole.place(&id).shard));
        assert_eq!(drains.place(&id).shard.cells().len(), 3);
        slots.push(drains.slot_of(&id));
    }
    // Among them, ones that are behind the end of a table which is cut as the other one is.
    assert!(slots.iter().any(|slot| *slot > 2 * 65_536 / 3));
}

#[test]
fn quarantine_comes_before_a_pin_and_a_pin_before_the_slot() {
    let mut spec = with_others();
    let both = || vec![cell_id("big-2"), cell_id("big-1")];
    spec.pins = [(tenant("acme"), both()), (tenant("globex"), both())].into();
    spec.quarantine = [(tenant("acme"), vec![cell_id("ward")])].into();
    let placement = build(&spec);
    let placed = |id: &str| {
        let placed = placement.place(&tenant(id));
        (placed.reason, names(&placement, placed.shard))
    };
    assert_eq!(placed("acme"), (Reason::Quarantine, vec!["ward".to_owned()]));
    assert_eq!(placed("globex"), (Reason::Pin, vec!["big-2".to_owned(), "big-1".to_owned()]));
    let free = build(&equal(8));
    let usual = free.place(&tenant("initech"));
    assert_eq!(placed("initech"), (Reason::Slot, names(&free, usual.shard)));
    assert_eq!(placement.place(&tenant("acme")).slot, free.place(&tenant("acme")).slot);
}

#[test]
fn a_cell_is_named_for_what_it_is_there_for_and_for_nothing_else() {
    let of_pin = |cells: [&str; 2]| {
        let mut spec = with(with_others(), 0, CellState::Draining);
        spec.pins.insert(tenant("acme"), cells.map(cell_id).into());
        spec
    };
    assert!(Placement::build(&of_pin(["cell-b", "big-1"])).is_ok());
    for (cell, state) in [("cell-a", "draining"), ("ward", "quarantine"), ("broken", "disabled")] {
        let said = format!("pin of acme names cell {cell}, which is {state}");
        assert_eq!(refusal(&of_pin(["cell-b", cell])), said);
    }
    let of_quarantine = |cells: &[&str]| {
        let mut spec = with(with_others(), 0, CellState::Draining);
        spec.quarantine.insert(tenant("acme"), cells.iter().map(|id| cell_id(id)).collect());
        spec
    };
    assert!(Placement::build(&of_quarantine(&["ward"])).is_ok());
    for (cell, state) in
        [("cell-a", "draining"), ("cell-b", "active"), ("big-1", "dedicated"), ("broken", "disabled")]
    {
        let said = format!("quarantine of acme names cell {cell}, which is {state}");
        assert_eq!(refusal(&of_quarantine(&["ward", cell])), said);
    }
    for (cells, said) in [
        (&["ward", "ward"][..], "quarantine of acme names the cell ward twice"),
        (&[], "quarantine of acme has 0 cells: 1 to 64 are possible"),
        (&["cell-z"], "quarantine of acme names the unknown cell cell-z"),
    ] {
        assert_eq!(refusal(&of_quarantine(cells)), said);
    }
}

#[test]
fn a_fleet_is_as_large_as_its_active_cells() {
    let all = (0..8).fold(equal(8), |spec, at| with(spec, at, CellState::Dedicated));
    assert_eq!(refusal(&all), "fleet has no active cells");
    let one = with(equal(2), 0, CellState::Disabled);
    assert_eq!(refusal(&one), "shard size 2 exceeds 1 active cells");
    let mut sized = equal(3);
    sized.sizes.insert(tenant("acme"), 4);
    assert_eq!(refusal(&sized), "shard size 4 exceeds 3 active cells");
    sized.sizes.insert(tenant("acme"), 0);
    assert_eq!(refusal(&sized), "shard size 0 places nobody");
}

#[test]
fn a_pin_is_as_long_as_the_tenants_own_shard() {
    let mut spec = equal(8);
    spec.sizes.insert(tenant("acme"), 3);
    let pin = |cells: &[&str]| cells.iter().map(|id| cell_id(id)).collect::<Vec<_>>();
    spec.pins.insert(tenant("acme"), pin(&["cell-a", "cell-b", "cell-c"]));
    spec.pins.insert(tenant("globex"), pin(&["cell-a", "cell-b"]));
    assert!(Placement::build(&spec).is_ok());
    spec.pins.insert(tenant("acme"), pin(&["cell-a", "cell-b"]));
    assert_eq!(refusal(&spec), "pin of acme has 2 cells, and a shard 3");
}

#[test]
fn a_size_that_nobody_has_changes_nothing_and_one_that_somebody_has_shows() {
    let usual = build(&equal(8)).digest();
    let sized = |id: &str, size| {
        let mut spec = equal(8);
        spec.sizes.insert(tenant(id), size);
        build(&spec).digest()
    };
    assert_eq!(sized("acme", 2), usual);
    let digests = [usual, sized("acme", 1), sized("acme", 3), sized("globex", 3), sized("acme", 4)];
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "{i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_tenant_has_the_beginning_of_the_largest_shard(spec in any_fleet(), sizes in prop::collection::vec(1..=3_usize, 1..8)) {
        let usual = build(&spec);
        let mut sized = spec.clone();
        sized.sizes = sizes.iter().enumerate().map(|(n, size)| (tenant(&format!("tenant-{n}")), *size)).collect();
        let largest = sizes.iter().copied().max().unwrap().max(spec.shard_size);
        let placement = build(&sized);
        let wide = build(&Spec { shard_size: largest, ..spec.clone() });
        prop_assert!(shards(&placement).eq(shards(&usual)));
        for slot in (0..65_536).step_by(97) {
            prop_assert_eq!(placement.largest_shard_of_slot(slot), wide.shard_of_slot(slot));
        }
        for n in 0..10 {
            let id = tenant(&format!("tenant-{n}"));
            let size = sizes.get(n).copied().unwrap_or(spec.shard_size);
            prop_assert_eq!(placement.size_of(&id), size);
            prop_assert_eq!(placement.place(&id).shard.cells(), &wide.place(&id).shard.cells()[..size]);
        }
    }

    // Whatever the zones are: with one cell out, tenants have no more than a shard, of different cells and zones.
    #[test]
    fn whatever_drains_everybody_had_cells_before_that_make_a_shard(spec in any_fleet(), which: prop::sample::Index) {
        let at = which.index(spec.cells.len());
        let Ok(drained) = Placement::build(&with(spec.clone(), at, CellState::Draining)) else { return Ok(()) };
        let whole = build(&spec);
        for id in (0..100).map(|n| tenant(&format!("tenant-{n}"))) {
            prop_assert_eq!(drained.shard_before_drain(&id), Some(whole.place(&id).shard));
        }
    }

    // P25, and the bound on what a drain moves.
    #[test]
    fn a_drain_changes_one_cell_of_a_shard_at_most(spec in any_fleet(), which: prop::sample::Index) {
        let at = which.index(spec.cells.len());
        let drained = with(spec.clone(), at, CellState::Draining);
        // Where the fleet cannot do without the cell it is refused, or falls back to one zone.
        let Ok(drained) = Placement::build(&drained) else { return Ok(()) };
        let whole = build(&spec);
        prop_assume!(drained.zone_separated() == whole.zone_separated());
        prop_assert_eq!(moved(&whole, &drained).twice, 0);
        let id = cell_id(&name(at));
        for (before, after) in shards(&whole).zip(shards(&drained)) {
            prop_assert!(before.contains(&&id) || before == after);
        }
    }
}
