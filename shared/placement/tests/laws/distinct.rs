//! Sets of cells of their own: distinct, within the zones, as few moved as possible, and given for as long as there are
//! any.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_model::{CellId, CellIndex, CellState, TenantId};
use cofferdam_placement::{Given, Placement, Reason, Spec, Spent};
use proptest::prelude::*;

use crate::fleets::{any_fleet, build, cell_id, equal, name, tenant, weighted, zoned};

/// Sets where nobody has any besides the pins.
fn distinct(placement: &Placement, tenants: &[TenantId]) -> Result<Vec<Given>, Spent> {
    cofferdam_placement::distinct(placement, tenants, &[])
}

/// The first `n` tenants of a series.
fn tenants(n: usize) -> Vec<TenantId> {
    (0..n).map(|i| tenant(&format!("t-{i}"))).collect()
}

fn set(cells: &[CellIndex]) -> BTreeSet<CellIndex> {
    cells.iter().copied().collect()
}

fn ids<'a>(placement: &'a Placement, cells: &[CellIndex]) -> Vec<&'a CellId> {
    cells.iter().map(|cell| &placement.cells()[cell.get()]).collect()
}

/// Every set of `size` cells that the zones allow.
fn allowed(spec: &Spec, placement: &Placement) -> Vec<BTreeSet<CellIndex>> {
    let zone = |index: CellIndex| {
        let id = &placement.cells()[index.get()];
        &spec.cells.iter().find(|cell| cell.id == *id).unwrap().zone
    };
    let n_cells = placement.cells().len();
    let sets = (0..1_u32 << n_cells).filter(|mask| mask.count_ones() as usize == spec.shard_size);
    let sets = sets.map(|mask| (0..n_cells as u16).filter(|i| mask & 1 << i != 0).map(CellIndex).collect());
    let in_zones = |cells: &BTreeSet<CellIndex>| {
        let zones: BTreeSet<_> = cells.iter().map(|&cell| zone(cell)).collect();
        !placement.zone_separated() || zones.len() == cells.len()
    };
    sets.filter(in_zones).collect()
}

/// A fleet with pins for some tenants, which name the cells that the table gives to others.
fn with_pins(spec: &Spec, pinned: &[usize]) -> Spec {
    let placement = build(spec);
    let pin = |&i: &usize| {
        let cells = ids(&placement, placement.place(&tenant(&format!("other-{i}"))).shard.cells());
        (tenant(&format!("pinned-{i}")), cells.into_iter().cloned().collect())
    };
    Spec { pins: pinned.iter().map(pin).collect(), ..spec.clone() }
}

/// The sets that pins have.
fn pinned(spec: &Spec, placement: &Placement) -> BTreeSet<BTreeSet<CellIndex>> {
    spec.pins.keys().map(|tenant| set(placement.place(tenant).shard.cells())).collect()
}

/// The fewest cells that tenants gain in any assignment of sets, found by trying all.
fn fewest_gained(wanting: &[BTreeSet<CellIndex>], free: &[BTreeSet<CellIndex>]) -> usize {
    // `best[mask]`: the least that the first tenants cost with these sets used.
    let mut best: BTreeMap<u32, usize> = BTreeMap::from([(0, 0)]);
    for has in wanting {
        let mut next = BTreeMap::new();
        for (mask, cost) in best {
            for (at, set) in free.iter().enumerate().filter(|(at, _)| mask & 1 << at == 0) {
                let cost = cost + set.difference(has).count();
                let known = next.entry(mask | 1 << at).or_insert(cost);
                *known = cost.min(*known);
            }
        }
        best = next;
    }
    best.into_values().min().unwrap()
}

fn gained(given: &[Given]) -> usize {
    given.iter().map(|given| given.gained).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sets_are_distinct_within_the_zones_and_given_exactly_while_there_are_any(
        spec in any_fleet(),
        pins in proptest::collection::vec(0..100_usize, 0..6),
        n in 0..70_usize,
    ) {
        let spec = with_pins(&spec, &pins);
        let placement = build(&spec);
        let (allowed, spent) = (allowed(&spec, &placement), pinned(&spec, &placement));
        let free = allowed.len() - spent.len();
        let list = tenants(n);
        match distinct(&placement, &list) {
            Ok(given) => {
                prop_assert!(n <= free);
                let sets: BTreeSet<_> = given.iter().map(|given| set(&given.shard)).collect();
                prop_assert_eq!(sets.len(), n, "two tenants have one set");
                prop_assert!(sets.iter().all(|set| allowed.contains(set)), "a zone is there twice");
                prop_assert!(sets.is_disjoint(&spent), "a pin's set is given away");
                let named: Vec<_> = given.iter().map(|given| given.tenant).collect();
                prop_assert_eq!(named, list, "the list's order");
            }
            Err(none_left) => {
                prop_assert!(n > free);
                prop_assert_eq!((none_left.sets, none_left.spent), (allowed.len() as u128, spent.len()));
                prop_assert_eq!(none_left.wanted, n);
            }
        }
    }

    #[test]
    fn as_few_cells_move_as_in_the_best_of_all_assignments(
        seed: u64,
        n_cells in 3..=5_usize,
        pins in proptest::collection::vec(0..100_usize, 0..3),
        n in 0..=10_usize,
    ) {
        let spec = with_pins(&Spec { seed, ..equal(n_cells) }, &pins);
        let placement = build(&spec);
        let spent = pinned(&spec, &placement);
        let free: Vec<_> = allowed(&spec, &placement).into_iter().filter(|set| !spent.contains(set)).collect();
        let list = tenants(n.min(free.len()));
        let given = distinct(&placement, &list).unwrap();
        let has: Vec<_> = list.iter().map(|tenant| set(placement.place(tenant).shard.cells())).collect();
        prop_assert_eq!(gained(&given), fewest_gained(&has, &free));
        for (given, has) in given.iter().zip(&has) {
            prop_assert_eq!(given.gained, set(&given.shard).difference(has).count());
        }
    }

    #[test]
    fn the_order_of_cells_and_pins_in_the_file_decides_nothing(spec in any_fleet(), n in 0..12_usize) {
        let mut turned = spec.clone();
        turned.cells.reverse();
        let (one, other) = (build(&spec), build(&turned));
        let list = tenants(n);
        prop_assert_eq!(distinct(&one, &list), distinct(&other, &list));
    }
}

#[test]
fn all_28_pairs_of_eight_cells_are_given_and_a_29th_is_not() {
    let placement = build(&equal(8));
    let given = distinct(&placement, &tenants(28)).unwrap();
    let pairs: BTreeSet<_> = given.iter().map(|given| set(&given.shard)).collect();
    assert_eq!(pairs.len(), 28);
    let none_left = distinct(&placement, &tenants(29)).unwrap_err();
    let said = "29 tenants want 2 cells each that are no other's, and 28 of 28 such sets are left: pins have spent 0";
    assert_eq!(none_left.to_string(), said);
}

#[test]
fn three_zones_of_three_have_27_pairs_to_give() {
    let placement = build(&zoned(&[3, 3, 3]));
    assert_eq!(distinct(&placement, &tenants(27)).unwrap().len(), 27);
    assert_eq!(distinct(&placement, &tenants(28)).unwrap_err().sets, 27);
}

#[test]
fn who_is_pinned_or_named_before_is_left_out() {
    let mut spec = equal(4);
    spec.pins = BTreeMap::from([(tenant("t-1"), vec![cell_id("cell-a"), cell_id("cell-b")])]);
    let placement = build(&spec);
    let list: Vec<_> = ["t-0", "t-1", "t-2", "t-0"].map(tenant).into();
    let given = distinct(&placement, &list).unwrap();
    assert_eq!(given.iter().map(|given| given.tenant.as_str()).collect::<Vec<_>>(), ["t-0", "t-2"]);
    let taken = set(placement.place(&tenant("t-1")).shard.cells());
    assert!(given.iter().all(|given| set(&given.shard) != taken));
}

/// Tenants that the table gives one pair, this way round.
fn tenants_of(placement: &Placement, pair: [&str; 2], n: usize) -> Vec<TenantId> {
    let all = (0..).map(|i| tenant(&format!("t-{i}")));
    let has = |tenant: &TenantId| {
        let placed = placement.place(tenant);
        placed.reason == Reason::Slot && ids(placement, placed.shard.cells()) == pair.map(cell_id).each_ref()
    };
    all.filter(has).take(n).collect()
}

#[test]
fn of_tenants_with_one_pair_the_first_keeps_it_the_next_keep_home_and_then_the_other_cell() {
    let placement = build(&equal(8));
    let list = tenants_of(&placement, ["cell-a", "cell-b"], 14);
    let given = distinct(&placement, &list).unwrap();
    let shards: Vec<_> = given.iter().map(|given| ids(&placement, &given.shard)).collect();
    assert_eq!(shards[0], [&cell_id("cell-a"), &cell_id("cell-b")]);
    assert_eq!((given[0].gained, gained(&given)), (0, 13 + 1));
    // Seven pairs keep home, six more the other cell; the last has none of its own left.
    assert!(shards[1..7].iter().all(|shard| *shard[0] == cell_id("cell-a")));
    assert!(shards[7..13].iter().all(|shard| *shard[0] == cell_id("cell-b")));
    assert_eq!(given[13].gained, 2);
    for joined in (2..8).map(|i| cell_id(&name(i))) {
        let times = shards[..13].iter().filter(|shard| *shard[1] == joined).count();
        assert_eq!(times, 2, "{joined} takes as many as every other cell");
    }
}

#[test]
fn who_moves_goes_to_the_cell_with_the_fewest_tenants_for_its_weight() {
    let placement = build(&weighted(&[1, 1, 1, 5]));
    let list = tenants_of(&placement, ["cell-a", "cell-b"], 2);
    let given = distinct(&placement, &list).unwrap();
    assert_eq!(ids(&placement, &given[1].shard), [&cell_id("cell-a"), &cell_id("cell-d")]);
}

#[test]
fn a_tenant_makes_room_for_one_that_could_move_nowhere_else() {
    // Besides a-b and c-d, a-c and c-e are free: the second tenant of c-d takes a-c first, and a-b's has nothing else.
    let mut spec = equal(5);
    let pinned =
        ["ad", "ae", "bc", "bd", "be", "de"].map(|pair| pair.chars().map(|c| cell_id(&format!("cell-{c}"))));
    let pins = pinned.into_iter().enumerate().map(|(i, pair)| (tenant(&format!("p-{i}")), pair.collect()));
    spec.pins = pins.collect();
    let placement = build(&spec);
    let (cd, ab) =
        (tenants_of(&placement, ["cell-c", "cell-d"], 2), tenants_of(&placement, ["cell-a", "cell-b"], 2));
    let given = distinct(&placement, &[cd, ab].concat()).unwrap();
    let shards: Vec<_> = given.iter().map(|given| ids(&placement, &given.shard)).collect();
    let pair = |a: &str, b: &str| [cell_id(a), cell_id(b)];
    assert_eq!(shards[1], pair("cell-c", "cell-e").each_ref());
    assert_eq!(shards[3], pair("cell-a", "cell-c").each_ref());
    assert_eq!(gained(&given), 2, "two keep what they have and two move in one cell");
}

#[test]
fn only_active_cells_are_given_and_each_tenant_as_many_as_it_has() {
    let mut spec = equal(6);
    spec.cells[4].state = CellState::Dedicated;
    spec.cells[5].state = CellState::Quarantine;
    spec.sizes = BTreeMap::from([(tenant("t-0"), 3), (tenant("t-1"), 3)]);
    // What is pinned to a dedicated cell spends nothing, and who is in quarantine wants nothing.
    spec.pins = BTreeMap::from([(tenant("apart"), vec![cell_id("cell-a"), cell_id("cell-e")])]);
    spec.quarantine = BTreeMap::from([(tenant("t-2"), vec![cell_id("cell-f")])]);
    let placement = build(&spec);
    let given = distinct(&placement, &tenants(9)).unwrap();
    assert_eq!(given.iter().map(|given| given.shard.len()).collect::<Vec<_>>(), [3, 3, 2, 2, 2, 2, 2, 2]);
    assert!(given.iter().all(|given| given.shard.iter().all(|cell| cell.get() < 4)));
    let none_left = distinct(&placement, &tenants(10)).unwrap_err();
    assert_eq!((none_left.size, none_left.sets, none_left.spent, none_left.wanted), (2, 6, 0, 7));
}
