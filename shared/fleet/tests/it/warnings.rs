//! What works but is probably not meant.

use crate::{TWO_CELLS, parse};

/// Two cells in two zones, which alone is nothing to warn of.
const TWO_ZONES: &str = "fleet: f
cells:
  - { id: a, zone: z1, url: 'http://a:1' }
  - { id: b, zone: z2, url: 'http://b:1' }
";

fn warnings(text: &str) -> Vec<String> {
    let loaded = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    loaded.warnings.iter().map(ToString::to_string).collect()
}

fn warned(more: &str) -> Vec<String> {
    warnings(&format!("{TWO_ZONES}{more}\n"))
}

#[test]
fn a_plain_fleet_has_no_warnings() {
    assert_eq!(warned(""), [""; 0]);
}

#[test]
fn one_zone_only_is_told() {
    let one_zone = "3:3: cells: all cells are in one zone: shards run without zone separation";
    assert_eq!(warnings(TWO_CELLS), [one_zone]);
    assert_eq!(warnings(&format!("{TWO_CELLS}placement: {{ shard_size: 1 }}")), [""; 0]);
}

#[test]
fn caps_that_fill_the_cell_without_a_floor_are_told() {
    // P4
    assert_eq!(
        warned("cell: { classes: { a: { ceiling: 120 }, default: { ceiling: 80 } } }"),
        ["5:18: cell.classes: ceilings sum to 200 of the cell's 200 places, and no class has a floor"]
    );
    assert_eq!(warned("cell: { classes: { a: { ceiling: 120 }, default: { ceiling: 79 } } }"), [""; 0]);
}

#[test]
fn a_class_that_the_others_can_squeeze_out_is_told() {
    // P4
    assert_eq!(
        warned(
            "cell: { classes: { a: { floor: 10, ceiling: 150 }, b: { ceiling: 20 }, default: { ceiling: 50 } } }"
        ),
        [
            "5:52: cell.classes.b: class b has no floor, and the ceilings of the others sum to 200 of the cell's \
          200 places"
        ]
    );
    assert_eq!(
        warned("cell: { classes: { a: { floor: 10, ceiling: 200 } } }"),
        [
            "5:18: cell.classes.default: class default has no floor, and the ceilings of the others sum to 200 of the \
          cell's 200 places"
        ]
    );
}

#[test]
fn a_queue_of_more_than_half_of_its_places_is_told() {
    // P8
    let queue = |queue| {
        warned(&format!(
            "cell: {{ classes: {{ default: {{ ceiling: 9, queue: {queue}, max_wait: 50ms }} }} }}"
        ))
    };
    assert_eq!(queue(4), [""; 0]);
    assert_eq!(
        queue(5),
        [
            "5:20: cell.classes.default: class default has a queue of 5 for 9 places: for steady traffic half as many \
             suffice"
        ]
    );
}

#[test]
fn a_route_behind_one_that_takes_all_of_it_is_told() {
    let unreachable =
        |at: &str, earlier| format!("{at}: no request comes here: routes[{earlier}] matches all of it");
    assert_eq!(
        warned(
            "routes:\n  - { match: { path: /a } }\n  - { match: { path: /a/b, method: GET, query: { x: y } } }"
        ),
        [unreachable("7:5: routes[1]", 0)]
    );
    assert_eq!(
        warned(
            "routes:\n  - { match: { path: / } }\n  - { match: { path: /b } }\n  - { match: { path: / } }"
        ),
        [unreachable("7:5: routes[1]", 0), unreachable("8:5: routes[2]", 0)]
    );
    for reachable in [
        "routes: [{ match: { path: /a } }, { match: { path: /ab } }]",
        "routes: [{ match: { path: /a, method: GET } }, { match: { path: /a } }]",
        "routes: [{ match: { path: /a, query: { x: y } } }, { match: { path: /a, query: { x: z } } }]",
        "routes: [{ match: { path: /a/b } }, { match: { path: /a } }]",
    ] {
        assert_eq!(warned(reachable), [""; 0], "{reachable}");
    }
}

#[test]
fn a_cost_that_no_bucket_can_pay_is_told() {
    assert_eq!(
        warned(
            "plans: { p: { sustained: 1/s, burst: 10, max_in_flight: 1 } }\n\
             routes: [{ match: { path: /a }, cost: 11 }]\n\
             tenant: { unknown: p }"
        ),
        ["6:10: routes[0]: cost 11 exceeds the burst 10 of plan p: always refused"]
    );
    assert_eq!(
        warned(
            "ceiling: { sustained: 1/s, burst: 10 }\n\
             routes: [{ match: { path: /a }, cost: 10 }, { match: { path: /b }, cost: 11 }]"
        ),
        ["6:45: routes[1]: cost 11 exceeds the burst 10 of the ceiling: always refused"]
    );
}

#[test]
fn plans_that_no_tenant_has_are_told() {
    let no_plan =
        "no tenant has a plan, so each is refused (404): name one in tenant.plan_of or tenant.unknown";
    let plans = "plans: { p: { sustained: 1/s, burst: 10, max_in_flight: 1 } }";
    assert_eq!(warned(plans), [format!("5:8: plans: {no_plan}")]);
    assert_eq!(warned("tenant: { unknown: refuse }"), [format!("5:20: tenant.unknown: {no_plan}")]);
    for some in ["unknown: p", "plan_of: { t: p }"] {
        assert_eq!(warned(&format!("{plans}\ntenant: {{ {some} }}")), [""; 0], "{some}");
    }
}

#[test]
fn a_header_that_everybody_may_set_is_told() {
    // P39
    assert_eq!(
        warned("tenant: { from: [{ header: { name: x, trusted: ['::/0'] } }] }"),
        ["5:49: tenant.from[0].header.trusted[0]: every peer may say which tenant it is"]
    );
}
