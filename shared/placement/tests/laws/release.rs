//! A change that is let loose slot by slot: everybody has the same order, each slot the old or the new shard and nothing
//! else.

use cofferdam_model::{CellState, Weight};
use cofferdam_placement::{Placement, Release, Slots, Spec};
use proptest::prelude::*;

use crate::fleets::{any_fleet, build, cell, equal};

fn names(placement: &Placement, cells: &[cofferdam_model::CellIndex]) -> Vec<String> {
    cells.iter().map(|cell| placement.cells()[cell.get()].to_string()).collect()
}

/// What slot by slot is served, once so many have had their turn.
fn served(release: &Release, new: &Placement, n_released: u32) -> Vec<Vec<String>> {
    let shard = |slot| {
        let held = release.before(slot, new.shard_size(), n_released);
        names(new, held.unwrap_or_else(|| new.shard_of_slot(slot)).cells())
    };
    (0..65_536).map(shard).collect()
}

fn whole(placement: &Placement) -> Vec<Vec<String>> {
    (0..65_536).map(|slot| names(placement, placement.shard_of_slot(slot).cells())).collect()
}

#[test]
fn slots_are_let_loose_one_by_one_and_none_goes_back() {
    let (old, new) = (build(&equal(8)), build(&equal(9)));
    let release = Release::new(&old, &new).unwrap();
    let n = release.n_slots();
    let (before, after) = (whole(&old), whole(&new));
    assert_eq!(served(&release, &new, 0), before);
    assert_eq!(served(&release, &new, n), after);
    let mut last = before.clone();
    for n_released in [1, 2, 100, n / 2, n - 1, n] {
        let now = served(&release, &new, n_released);
        let is_new = (0..65_536).filter(|&slot| now[slot] != before[slot]).count();
        assert_eq!(is_new, n_released as usize);
        for slot in 0..65_536 {
            assert!(now[slot] == after[slot] || now[slot] == before[slot]);
            assert!(now[slot] == last[slot] || last[slot] == before[slot], "slot {slot} goes back");
        }
        last = now;
    }
}

#[test]
fn the_first_half_is_spread_over_all_slots() {
    let release = Release::new(&build(&equal(8)), &build(&equal(9))).unwrap();
    let half = release.n_slots() / 2;
    let waits =
        |slots: std::ops::Range<u32>| slots.filter(|&slot| release.before(slot, 2, half).is_some()).count();
    let (low, high) = (waits(0..32_768), waits(32_768..65_536));
    // Binomial, with a standard deviation of some 60.
    assert!(low.abs_diff(high) < 600, "{low} and {high}");
}

#[test]
fn nothing_changed_and_nothing_in_common_is_no_release() {
    let old = build(&equal(8));
    assert!(Release::new(&old, &build(&equal(8))).is_none());
    assert!(Release::new(&old, &build(&Spec { seed: 1, ..equal(8) })).is_none());
    assert!(Release::new(&old, &build(&Spec { slots: Slots::Pow20, ..equal(8) })).is_none());
    // A larger shard takes nothing away.
    assert!(Release::new(&old, &build(&Spec { shard_size: 3, ..equal(8) })).is_none());
}

#[test]
fn a_slot_whose_old_cell_cannot_serve_any_more_does_not_wait() {
    let with = |state| {
        let mut spec = equal(8);
        spec.cells[3].state = state;
        build(&spec)
    };
    let old = build(&equal(8));
    let drains = Release::new(&old, &with(CellState::Draining)).unwrap();
    // A quarter of the pairs has it.
    assert!((14_000..19_000).contains(&drains.n_slots()), "{}", drains.n_slots());
    for state in [CellState::Dedicated, CellState::Quarantine, CellState::Disabled] {
        assert!(Release::new(&old, &with(state)).is_none(), "{state}");
    }
    let mut spec = equal(8);
    spec.cells.remove(3);
    assert!(Release::new(&old, &build(&spec)).is_none());
}

#[test]
fn a_tenant_with_more_cells_waits_with_as_many_as_it_had() {
    let (old, mut new) = (build(&equal(8)), equal(9));
    new.shard_size = 3;
    let new = build(&new);
    let release = Release::new(&old, &new).unwrap();
    let slot = (0..65_536).find(|&slot| release.before(slot, 3, 0).is_some()).unwrap();
    let held = release.before(slot, 3, 0).unwrap();
    assert_eq!(names(&new, held.cells()), names(&old, old.shard_of_slot(slot).cells()));
    assert_eq!(release.before(slot, 1, 0).unwrap().cells(), &held.cells()[..1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn at_every_step_each_slot_has_its_old_or_its_new_shard(
        spec in any_fleet(),
        which: prop::sample::Index,
        thousandths in 1..5000_u32,
        part in 0..=100_u32,
    ) {
        let mut changed = spec.clone();
        let at = which.index(spec.cells.len());
        changed.cells[at].weight = Weight::from_thousandths(thousandths).unwrap();
        changed.cells.push(cell("cell-bb", spec.cells[at].zone.as_str(), thousandths));
        let (old, new) = (build(&spec), build(&changed));
        let Some(release) = Release::new(&old, &new) else { return Ok(()) };
        let n_released = release.n_slots() * part / 100;
        let (before, after, now) = (whole(&old), whole(&new), served(&release, &new, n_released));
        let mut n_waiting = 0;
        for slot in 0..65_536 {
            prop_assert!(now[slot] == before[slot] || now[slot] == after[slot]);
            n_waiting += u32::from(before[slot] != after[slot] && now[slot] == before[slot]);
        }
        prop_assert_eq!(n_waiting, release.n_slots() - n_released);
        // Another router, which finds it by itself, has the same order.
        prop_assert_eq!(served(&Release::new(&old, &new).unwrap(), &new, n_released), now);
    }
}
