//! Every way in which a file can be wrong, and exactly what is said of it.

use crate::{TWO_CELLS, refusal, refused, with};

#[test]
fn a_queue_without_a_bound_is_refused() {
    // P55
    refused(&[
        (
            "cell: { classes: { x: { queue: unbounded, max_wait: 1s } } }",
            "5:32: cell.classes.x.queue: queue unbounded has no usable bound: expected a whole number from 0 to 100000",
        ),
        (
            "cell: { classes: { x: { queue: .inf } } }",
            "5:32: cell.classes.x.queue: queue .inf has no usable bound: expected a whole number from 0 to 100000",
        ),
        (
            "cell: { classes: { x: { queue: -1 } } }",
            "5:32: cell.classes.x.queue: queue -1 has no usable bound: expected a whole number from 0 to 100000",
        ),
        (
            "cell: { classes: { x: { queue: 100001 } } }",
            "5:32: cell.classes.x.queue: queue 100001 has no usable bound: expected a whole number from 0 to 100000",
        ),
        (
            "cell: { classes: { x: { queue: } } }",
            "5:30: cell.classes.x.queue: expected a bounded queue such as 20, found nothing",
        ),
        (
            "cell: { classes: { x: { queue: 1, max_wait: 0s } } }",
            "5:45: cell.classes.x.max_wait: 0s is outside 1ms to 60s",
        ),
    ]);
}

#[test]
fn a_wait_without_a_queue_is_refused() {
    refused(&[
        (
            "cell: { classes: { x: { max_wait: 1s } } }",
            "5:35: cell.classes.x.max_wait: nobody waits in a class without a queue: give it one, or leave this out",
        ),
        (
            "cell: { classes: { x: { queue: 0, max_wait: 1s } } }",
            "5:45: cell.classes.x.max_wait: nobody waits in a class without a queue: give it one, or leave this out",
        ),
    ]);
}

#[test]
fn classes_that_a_cell_cannot_hold_are_refused() {
    refused(&[
        (
            "cell: { classes: { a: { floor: 150 }, b: { floor: 60 } } }",
            "5:18: cell.classes: floors sum to 210, beyond the cell's 200 places",
        ),
        (
            "cell: { classes: { a: { floor: 50, ceiling: 40 } } }",
            "5:32: cell.classes.a.floor: floor 50 exceeds ceiling 40",
        ),
        (
            "cell: { classes: { a: { ceiling: 400 } } }",
            "5:34: cell.classes.a.ceiling: ceiling 400 exceeds the cell's 200 places",
        ),
        (
            "cell: { classes: { a: { ceiling: 0 } } }",
            "5:34: cell.classes.a.ceiling: 0 is outside 1 to 4294967295",
        ),
        ("cell: { max_in_flight: 0 }", "5:24: cell.max_in_flight: 0 is outside 1 to 1000000"),
        (
            "cell: { tenant_share: 25 }",
            "5:23: cell.tenant_share: \"25\" is not a share between 0 and 1 such as 0.25",
        ),
    ]);
}

#[test]
fn cells_that_make_no_fleet_are_refused() {
    let table = [
        ("{ id: c }", "5:5: cells[2]: missing key `url`: expected a url such as http://10.0.1.10:7100"),
        (
            "{ id: c, url: 'http://c:1', weight: 0 }",
            "5:41: cells[2].weight: weight 0 is outside 0.001 to 1000",
        ),
        (
            "{ id: c, url: 'http://c:1', weight: -1 }",
            "5:41: cells[2].weight: \"-1\" is not a weight such as 1, 2 or 0.5",
        ),
        (
            "{ id: c, url: 'http://c:1', weight: x }",
            "5:41: cells[2].weight: \"x\" is not a weight such as 1, 2 or 0.5",
        ),
        ("{ id: a, url: 'http://c:1' }", "5:11: cells[2].id: cell a is already on line 3"),
        ("{ id: c, url: 'http://A:1/' }", "5:19: cells[2].url: url http://a:1 is already the url of cell a"),
        (
            "{ id: c, url: 'https://c:1' }",
            "5:19: cells[2].url: url https://c:1 has the scheme https: only http is supported",
        ),
        (
            "{ id: c, url: 'http://c:1/x' }",
            "5:19: cells[2].url: url http://c:1/x has a path: only a host and a port are wanted",
        ),
        (
            "{ id: c, url: 'http://c:1', probe: c }",
            "5:40: cells[2].probe: \"c\" is not a url such as http://10.0.1.10:7100",
        ),
        (
            "{ id: c, url: 'http://c:1', probe: 'http://c:1' }",
            "5:40: cells[2].probe: probe http://c:1 is already the url of cell c",
        ),
        (
            "{ id: c, url: 'http://c:1', probe: 'http://b:1' }",
            "5:40: cells[2].probe: probe http://b:1 is already the url of cell b",
        ),
        (
            "{ id: c, url: 'http://c:1', probe: 'http://c:2' }\n  - { id: d, url: 'http://d:1', probe: 'http://c:2' }",
            "6:40: cells[3].probe: probe http://c:2 is already the probe of cell c",
        ),
        (
            "{ id: c d, url: 'http://c:1' }",
            "5:11: cells[2].id: name \"c d\" has the character ' ': letters, digits, '-', '_' and '.' are allowed",
        ),
        (
            "{ id: c, url: 'http://c:1', tier: gold }",
            "5:33: cells[2].tier: unknown key `tier`; expected id, zone, url, probe, weight, state, until",
        ),
    ];
    for (cell, expected) in table {
        assert_eq!(refusal(&format!("{TWO_CELLS}  - {cell}\n")), format!("fleet:{expected}"), "{cell}");
    }
}

#[test]
fn a_shard_that_the_cells_cannot_fill_is_refused() {
    refused(&[
        ("placement: { shard_size: 9 }", "5:26: placement.shard_size: shard size 9 exceeds 2 active cells"),
        ("placement: { shard_size: 0 }", "5:26: placement.shard_size: 0 is outside 1 to 65535"),
        (
            "placement: { shard_size: two }",
            "5:26: placement.shard_size: \"two\" is not a count such as 100, 20k or 10M",
        ),
        (
            "placement: { slots: 1000 }",
            "5:21: placement.slots: 1000 slots are not possible: expected 65536 or 1048576",
        ),
    ]);
    let one = "fleet: f\ncells: [{ id: a, url: 'http://a:1' }]\n";
    assert_eq!(refusal(one), "fleet:2:8: cells: shard size 2 exceeds 1 active cell");
    let zones =
        format!("{TWO_CELLS}  - {{ id: c, zone: z2, url: 'http://c:1' }}\nplacement: {{ shard_size: 3 }}\n");
    assert_eq!(
        refusal(&zones),
        "fleet:6:26: placement.shard_size: shard size 3 exceeds 2 zones of active cells"
    );
}

#[test]
fn a_pin_that_is_no_shard_is_refused() {
    refused(&[
        (
            "placement: { pins: { t: [a, bb] } }",
            "5:29: placement.pins.t[1]: cell bb is not in this fleet; did you mean `b`?",
        ),
        ("placement: { pins: { t: [a] } }", "5:25: placement.pins.t: a pin of 1 does not match shard size 2"),
        ("placement: { pins: { t: [a, a] } }", "5:29: placement.pins.t[1]: cell a is pinned twice"),
        (
            "placement: { pins: { t: a } }",
            "5:25: placement.pins.t: expected a list of cells, home first, found \"a\"",
        ),
        (
            "placement: { pins: { t_1: [a, b] } }",
            "5:22: placement.pins.t_1: tenant id has '_' at 1: \
             a-z, 0-9, '-' and the fleet file's extra_characters are allowed",
        ),
    ]);
}

#[test]
fn a_seed_is_one_number_from_one_place() {
    refused(&[
        (
            "placement: { seed: 1, seed_file: x }",
            "5:34: placement.seed_file: seed and seed_file are both given: one of them must go",
        ),
        (
            "placement: { seed: 0x10 }",
            "5:20: placement.seed: \"0x10\" is not a seed from 0 to 18446744073709551615",
        ),
        (
            "placement: { seed_file: x }",
            "5:25: placement.seed_file: seed file /nowhere/x: No such file or directory (os error 2)",
        ),
    ]);
}

#[test]
fn a_class_or_a_plan_that_nobody_defined_is_refused() {
    refused(&[
        (
            "routes: [{ match: { path: /x }, class: serch }]\ncell: { classes: { search: {} } }",
            "5:40: routes[0].class: class \"serch\" is not defined; did you mean `search`?",
        ),
        ("tenant: { plan_of: { t: gold } }", "5:25: tenant.plan_of.t: plan \"gold\" is not defined"),
        ("tenant: { unknown: gold }", "5:20: tenant.unknown: plan \"gold\" is not defined"),
        (
            "tenant: { plan_of: { T: default } }",
            "5:22: tenant.plan_of.T: tenant id has 'T' at 0: \
             a-z, 0-9, '-' and the fleet file's extra_characters are allowed",
        ),
    ]);
}

#[test]
fn a_plan_that_admits_nothing_or_cannot_be_counted_is_refused() {
    refused(&[
        (
            "plans: { p: { sustained: 1/s, burst: 0, max_in_flight: 1 } }",
            "5:38: plans.p.burst: 0 is outside 1 to 1000000000",
        ),
        (
            "plans: { p: { sustained: 1/s, burst: 1, max_in_flight: 0 } }",
            "5:56: plans.p.max_in_flight: 0 is outside 1 to 1000000000",
        ),
        (
            "plans: { p: { sustained: 0/s, burst: 1, max_in_flight: 1 } }",
            "5:26: plans.p.sustained: rate \"0/s\" is out of range: 1 to 10^9 per at most a day",
        ),
        (
            "plans: { p: { sustained: fast, burst: 1, max_in_flight: 1 } }",
            "5:26: plans.p.sustained: \"fast\" is not a rate such as 20/s, 7/min, 2k/s or 10/100ms",
        ),
        (
            "plans: { p: { sustained: 7/d, burst: 200k, max_in_flight: 1 } }",
            "5:38: plans.p.burst: burst 200000 is too large to be counted exactly at 7/d: at most 104249",
        ),
        (
            "plans: { p: { sustained: 1/s, burst: 1 } }",
            "5:13: plans.p: missing key `max_in_flight`: expected all of sustained, burst and max_in_flight",
        ),
        ("plans: {}", "5:8: plans: a file with plans needs at least one"),
        (
            "plans: { refuse: { sustained: 1/s, burst: 1, max_in_flight: 1 } }",
            "5:10: plans.refuse: `refuse` cannot name a plan: it stands for none in tenant.unknown",
        ),
        ("ceiling: { sustained: 1/s }", "5:23: ceiling.sustained: sustained needs burst beside it"),
        ("ceiling: { burst: 1 }", "5:19: ceiling.burst: burst needs sustained beside it"),
        ("limits: { jitter: 2 }", "5:19: limits.jitter: \"2\" is not a share between 0 and 1 such as 0.25"),
        ("limits: { max_tenants: 0 }", "5:24: limits.max_tenants: 0 is outside 1 to 10000000"),
    ]);
}

#[test]
fn a_route_that_means_nothing_is_refused() {
    refused(&[
        (
            "routes: [{ match: { path: x } }]",
            "5:27: routes[0].match.path: path \"x\" does not start with '/'",
        ),
        (
            "routes: [{ match: { path: /a//b } }]",
            "5:27: routes[0].match.path: path \"/a//b\" is not a plain path such as /v1/search",
        ),
        (
            "routes: [{ match: { path: /a;b } }]",
            "5:27: routes[0].match.path: path \"/a;b\" has parameters, which are left out of a path before it is matched",
        ),
        (
            "routes: [{ match: { path: /a, method: get } }]",
            "5:39: routes[0].match.method: \"get\" is not a method: \
             expected GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
        ),
        (
            "routes: [{ match: { path: /a }, cost: 1000001 }]",
            "5:39: routes[0].cost: 1000001 is outside 0 to 1000000",
        ),
        (
            "routes: [{ match: { path: /a }, timeout: 15 }]",
            "5:42: routes[0].timeout: \"15\" is not a duration such as 250ms, 15s or 5min",
        ),
        (
            "routes: [{ match: { path: /a }, timeout: 0s }]",
            "5:42: routes[0].timeout: 0s is outside 1ms to 3600s",
        ),
        (
            "routes: [{ class: default }]",
            "5:10: routes[0]: missing key `match`: \
             expected what a request must have, such as { path: /v1/search }",
        ),
    ]);
}

#[test]
fn more_than_a_table_holds_is_refused() {
    let list = |n: usize, item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>().join(", ");
    let cells = list(4097, &|i| format!("{{ id: c{i}, url: 'http://c:{}' }}", i + 1));
    assert_eq!(refusal(&format!("fleet: f\ncells: [{cells}]")), "fleet:2:8: cells: 4097 cells exceed 4096");
    let plans = list(1025, &|i| format!("p{i}: {{ sustained: 1/s, burst: 1, max_in_flight: 1 }}"));
    let routes = list(1001, &|i| format!("{{ match: {{ path: /r{i} }} }}"));
    let classes = list(64, &|i| format!("c{i}: {{}}"));
    refused(&[
        (&format!("plans: {{ {plans} }}"), "5:8: plans: 1025 plans exceed 1024"),
        (&format!("routes: [{routes}]"), "5:9: routes: 1001 routes exceed 1000"),
        (
            &format!("cell: {{ classes: {{ {classes} }} }}"),
            "5:18: cell.classes: 65 classes, `default` among them, exceed 64",
        ),
    ]);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    refused(&[
        (
            "plans: { p: { sustaned: 1/s, burst: 1, max_in_flight: 1 } }",
            "5:15: plans.p.sustaned: unknown key `sustaned`; did you mean `sustained`?",
        ),
        ("route: []", "5:1: route: unknown key `route`; did you mean `routes`?"),
        ("limits: { moed: auto }", "5:11: limits.moed: unknown key `moed`; did you mean `mode`?"),
        (
            "cell: { classes: { x: { on_full: reject } } }",
            "5:25: cell.classes.x.on_full: unknown key `on_full`; expected kind, priority, floor, ceiling, queue, max_wait, \
             adaptive, timeout, fallback",
        ),
    ]);
}

#[test]
fn a_key_that_comes_twice_is_refused() {
    refused(&[
        ("fleet: g", "5:1: fleet: this key comes twice"),
        ("tenant: { plan_of: { t: default, t: default } }", "5:34: tenant.plan_of.t: this key comes twice"),
    ]);
}

#[test]
fn every_problem_is_told_at_once_in_the_order_of_the_file() {
    let said = refusal(
        "fleet: ''
cells:
  - { id: a, url: 'http://a:1', weight: x }
  - { id: b, url: 'http://b:1', wieght: 2 }
placement: { shard_size: 3, pins: { t: [a, c, b] } }
tenant: { unknown: gold }
cell: [x]
",
    );
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "fleet:1:8: fleet: name of 0 bytes is not between 1 and 64",
            "fleet:3:41: cells[0].weight: \"x\" is not a weight such as 1, 2 or 0.5",
            "fleet:4:33: cells[1].wieght: unknown key `wieght`; did you mean `weight`?",
            "fleet:5:26: placement.shard_size: shard size 3 exceeds 2 active cells",
            "fleet:5:44: placement.pins.t[1]: cell c is not in this fleet",
            "fleet:6:20: tenant.unknown: plan \"gold\" is not defined",
            "fleet:7:7: cell: expected a map with the keys max_in_flight, tenant_share, max_tenants, classes, dependencies, \
             breaker, found a list",
        ]
    );
}

#[test]
fn a_reason_without_words_and_a_bound_that_is_no_share_are_refused() {
    let long = format!("placement: {{ force: {} }}", "x".repeat(201));
    refused(&[
        (
            "placement: { force: '  ' }",
            "5:21: placement.force: a change is forced for a reason: expected some words",
        ),
        (&long, "5:21: placement.force: a reason is one line of at most 200 characters"),
        (
            "placement: { force: \"a\\nb\" }",
            "5:21: placement.force: a reason is one line of at most 200 characters",
        ),
        ("placement: { force: [a] }", "5:21: placement.force: expected a reason, found a list"),
        (
            "placement: { max_inclusion: 1.5 }",
            "5:29: placement.max_inclusion: \"1.5\" is not a share between 0 and 1 such as 0.25",
        ),
    ]);
    let rules = with("placement: { force: ' told ', max_inclusion: 0.8 }").placement;
    assert_eq!((rules.force.as_deref(), rules.max_inclusion.unwrap().of(10)), (Some("told"), 8));
}
