//! What a cell is there for, who may be sent to it, and how many cells a plan's tenants have.

use std::time::{Duration, SystemTime};

use cofferdam_fleet::{Affinity, Inclusion};
use cofferdam_model::CellState;

use crate::{parse, refusal, refused, with};

/// Two active cells, two dedicated ones, one that drains, one for quarantine, one that is disabled: seven lines.
const EVERY_STATE: &str = "fleet: f
cells:
  - { id: a, url: 'http://a:1' }
  - { id: b, url: 'http://b:1', state: active }
  - { id: c, url: 'http://c:1', state: draining, until: 2027-01-31T20:00:00+02:00 }
  - { id: d, url: 'http://d:1', state: dedicated }
  - { id: e, url: 'http://e:1', state: dedicated }
  - { id: q, url: 'http://q:1', state: quarantine }
  - { id: x, url: 'http://x:1', state: disabled }
";

#[test]
fn a_cell_has_the_state_that_the_file_gives_it() {
    let text =
        format!("{EVERY_STATE}placement: {{ pins: {{ t: [d, a] }}, quarantine: {{ u: [q], t: [q] }} }}\n");
    let fleet = parse(&text).unwrap().fleet;
    let states: Vec<_> = fleet.cells.iter().map(|cell| cell.state).collect();
    assert_eq!(
        states[2..],
        [
            CellState::Draining,
            CellState::Dedicated,
            CellState::Dedicated,
            CellState::Quarantine,
            CellState::Disabled
        ]
    );
    assert_eq!(fleet.cells[2].until, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_801_418_400)));
    let named = |pins: &[cofferdam_fleet::Pin]| -> Vec<_> {
        pins.iter()
            .map(|pin| (pin.tenant.to_string(), pin.cells.iter().map(|cell| cell.0).collect()))
            .collect()
    };
    let expected: [(String, Vec<u16>); 2] = [("t".to_owned(), vec![5]), ("u".to_owned(), vec![5])];
    assert_eq!(named(&fleet.placement.pins), [("t".to_owned(), vec![3, 0])]);
    assert_eq!(named(&fleet.placement.quarantine), expected);
}

#[test]
fn a_state_that_is_none_and_an_end_out_of_place_are_refused() {
    for (cell, said) in [
        (
            "state: gone",
            "5:40: cells[2].state: \"gone\" is not active, draining, dedicated, quarantine or disabled",
        ),
        (
            "state: draining",
            "5:5: cells[2]: missing key `until`: expected a time such as 2027-01-31T18:00:00Z",
        ),
        (
            "state: draining, until: tomorrow",
            "5:57: cells[2].until: \"tomorrow\" is not a time such as 2027-01-31T18:00:00Z",
        ),
        (
            "until: 2027-01-31T18:00:00Z",
            "5:40: cells[2].until: a cell that is active has no end: this is for one that drains",
        ),
    ] {
        let text = format!("{}  - {{ id: c, url: 'http://c:1', {cell} }}\n", crate::TWO_CELLS);
        assert_eq!(refusal(&text), format!("fleet:{said}"), "{cell}");
    }
}

#[test]
fn a_cell_is_named_for_what_it_is_there_for() {
    for (words, said) in [
        (
            "pins: { t: [a, c] }",
            "10:29: placement.pins.t[1]: cell c is draining: a pin may name active and dedicated cells",
        ),
        (
            "pins: { t: [q, a] }",
            "10:26: placement.pins.t[0]: cell q is quarantine: a pin may name active and dedicated cells",
        ),
        (
            "pins: { t: [x, a] }",
            "10:26: placement.pins.t[0]: cell x is disabled: a pin may name active and dedicated cells",
        ),
        (
            "quarantine: { t: [d] }",
            "10:32: placement.quarantine.t[0]: cell d is dedicated: a quarantine may name quarantine cells",
        ),
        ("quarantine: { t: [q, q] }", "10:35: placement.quarantine.t[1]: cell q is named twice"),
        (
            "quarantine: { t: [] }",
            "10:31: placement.quarantine.t: expected a list of cells, home first, found an empty list",
        ),
        (
            "quarantine: [t]",
            "10:26: placement.quarantine: expected a map from tenants to their cells, found a list",
        ),
    ] {
        assert_eq!(refusal(&format!("{EVERY_STATE}placement: {{ {words} }}\n")), format!("fleet:{said}"));
    }
}

#[test]
fn a_shard_is_filled_by_active_cells_alone() {
    let said = "fleet:10:26: placement.shard_size: shard size 3 exceeds 2 active cells";
    assert_eq!(refusal(&format!("{EVERY_STATE}placement: {{ shard_size: 3 }}\n")), said);
    let none = "fleet: f\ncells:\n  - { id: a, url: 'http://a:1', state: disabled }\n";
    assert_eq!(refusal(none), "fleet:3:3: cells: no cell is active: the table has nobody to give tenants to");
}

#[test]
fn a_plan_may_give_its_tenants_more_cells_and_a_pin_follows_it() {
    let plans = |size: &str, rest: &str| {
        format!(
            "  - {{ id: c, url: 'http://c:1' }}\nplans: {{ p: {{ sustained: 1/s, burst: 1, max_in_flight: 1 }}, \
             big: {{ sustained: 1/s, burst: 1, max_in_flight: 1, shard_size: {size} }} }}\n\
             tenant: {{ unknown: p, plan_of: {{ t: big }} }}\n{rest}"
        )
    };
    let fleet = with(&plans("3", "placement: { pins: { t: [a, b, c], u: [a, b] } }"));
    let size = |id: &str| {
        let tenant = cofferdam_model::TenantId::parse(id.as_bytes(), &fleet.tenant.alphabet).unwrap();
        fleet.shard_size(fleet.tenant.plan_for(&tenant))
    };
    assert_eq!((size("t"), size("u"), fleet.shard_size(None)), (3, 2, 2));
    let said = "fleet:8:25: placement.pins.t: a pin of 2 does not match shard size 3";
    assert_eq!(
        refusal(&format!("{}{}\n", crate::TWO_CELLS, plans("3", "placement: { pins: { t: [a, b] } }"))),
        said
    );
    let said = refusal(&format!("{}{}\n", crate::TWO_CELLS, plans("4", "")));
    assert!(said.ends_with("plans.big.shard_size: shard size 4 exceeds 3 active cells"), "{said}");
}

#[test]
fn affinity_is_one_cookie_or_one_header() {
    let of =
        |affinity: &str| with(&format!("placement: {{ affinity: {{ {affinity} }} }}")).placement.affinity;
    assert_eq!(of("cookie: cell"), Some(Affinity::Cookie("cell".into())));
    assert_eq!(of("header: X-Cell").unwrap().to_string(), "header x-cell");
    refused(&[
        (
            "placement: { affinity: { cookie: a, header: b } }",
            "5:24: placement.affinity: affinity is exactly one of cookie and header",
        ),
        (
            "placement: { affinity: { cookie: 'a b' } }",
            "5:34: placement.affinity.cookie: \"a b\" is not a cookie's name such as cell",
        ),
        (
            "placement: { affinity: { header: cofferdam-cell } }",
            "5:34: placement.affinity.header: header cofferdam-cell has another use: it can never mark a request",
        ),
    ]);
}

#[test]
fn inclusion_in_proportion_is_for_pairs() {
    let said = with("placement: { inclusion: proportional }").placement.inclusion;
    assert_eq!(said, Inclusion::Proportional);
    refused(&[
        (
            "placement: { inclusion: fair }",
            "5:25: placement.inclusion: \"fair\" is not weight or proportional",
        ),
        (
            "placement: { inclusion: proportional, shard_size: 1 }",
            "5:25: placement.inclusion: inclusion in proportion is for shards of two: some plan or `shard_size` says otherwise",
        ),
    ]);
}
