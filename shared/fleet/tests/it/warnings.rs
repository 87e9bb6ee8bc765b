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

#[test]
fn a_path_that_looks_like_a_pattern_is_told_to_be_none() {
    let route = |path: &str| warned(&format!("routes: [{{ match: {{ path: '{path}' }} }}]"));
    let told = |what: &str, path: &str, above: &str| {
        let path = path.replace('\\', "\\\\");
        format!(
            "5:27: routes[0].match.path: {what} in \"{path}\" is matched as it is written: a path has no patterns, and {above} \
             alone matches all below it"
        )
    };
    for (path, what, above) in [
        ("/v1/search/*", "`*`", "/v1/search"),
        ("/v1/**", "`*`", "/v1"),
        ("/*", "`*`", "/"),
        ("/v1/*.json", "`*`", "/v1"),
        ("/users/{id}/posts", "the parameter `{id}`", "/users"),
        ("/users/{id:[0-9]+}", "the parameter `{id:[0-9]+}`", "/users"),
        ("/users/:id", "the parameter `:id`", "/users"),
        ("/users/<id>", "the parameter `<id>`", "/users"),
        ("/v1/.+", "the expression `.+`", "/v1"),
        ("/^v1", "the expression `^v1`", "/"),
        ("/v1/search$", "the expression `search$`", "/v1"),
        ("/v[12]/a", "the expression `v[12]`", "/"),
        ("/(a|b)", "the expression `(a|b)`", "/"),
        ("/v\\d", "the expression `v\\d`", "/"),
    ] {
        assert_eq!(route(path), [told(what, path, above)], "{path}");
    }
    // What stands in paths of real products is no pattern.
    for plain in [
        "/v1/books:search",
        "/$metadata",
        "/c++",
        "/a.b/c-d_e~f",
        "/users(1)",
        "/@me",
        "/a,b",
        "/.well-known/x",
    ] {
        assert_eq!(route(plain), [""; 0], "{plain}");
    }
    let query = warned("routes: [{ match: { path: /a, query: { q: '*' } } }]");
    assert_eq!(
        query,
        ["5:43: routes[0].match.query.q: \"*\" is matched as it is written: a value has no patterns"]
    );
    let source = warned("tenant: { from: [{ path: { pattern: '/orgs/*/{tenant}' } }] }");
    assert_eq!(
        source,
        [
            "5:37: tenant.from[0].path.pattern: `*` in \"/orgs/*/\" is matched as it is written: only {tenant} stands for another \
          text"
        ]
    );
}

#[test]
fn a_url_without_a_port_is_told_with_the_port_that_it_means() {
    let file = "fleet: f
cells:
  - { id: a, zone: z1, url: 'http://a', probe: 'http://[fd00::1]' }
  - { id: b, zone: z2, url: 'http://b:80' }
";
    assert_eq!(
        warnings(file),
        [
            "3:29: cells[0].url: http://a names no port, so it is port 80: an agent has 7100 and 7101",
            "3:48: cells[0].probe: http://[fd00::1] names no port, so it is port 80: an agent has 7100 and 7101",
        ]
    );
}

#[test]
fn a_query_or_an_escape_in_a_path_and_more_than_a_host_in_a_host_are_refused_with_what_is_meant() {
    crate::refused(&[
        (
            "routes: [{ match: { path: '/v1/search?deep=1&x=2' } }]",
            "5:27: routes[0].match.path: path \"/v1/search?deep=1&x=2\" has a query: write /v1/search here, and query: { deep: \"1\" } \
             beside it",
        ),
        (
            "routes: [{ match: { path: /a%20b } }]",
            "5:27: routes[0].match.path: path \"/a%20b\" has an escape: expected the character itself",
        ),
        (
            "tenant: { from: [{ host: { pattern: '{tenant}.app.example:8080' } }] }",
            "5:37: tenant.from[0].host.pattern: \"{tenant}.app.example:8080\" has a port: expected {tenant}.app.example, since a host \
             alone is compared",
        ),
        (
            "tenant: { from: [{ host: { pattern: 'https://{tenant}.app.example/x' } }] }",
            "5:37: tenant.from[0].host.pattern: \"https://{tenant}.app.example/x\" has a scheme: expected {tenant}.app.example, since \
             a host alone is compared",
        ),
        (
            "tenant: { from: [{ host: { pattern: '{tenant}.app.example/x' } }] }",
            "5:37: tenant.from[0].host.pattern: \"{tenant}.app.example/x\" has a path: expected {tenant}.app.example, since a host \
             alone is compared",
        ),
        (
            "tenant: { from: [{ host: { pattern: '*.app.example' } }] }",
            "5:37: tenant.from[0].host.pattern: \"*.app.example\" does not say where the tenant is: expected {tenant}.app.example",
        ),
    ]);
}
