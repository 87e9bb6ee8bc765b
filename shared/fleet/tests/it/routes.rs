//! Which route a request has.

use std::time::Duration;

use http::Method;

use crate::with;

const ROUTES: &str = "routes:
  - { match: { path: /v1/search, query: { deep: '1' } }, cost: 16 }
  - { match: { path: /v1/search/ }, cost: 8, timeout: 2s }
  - { match: { path: /v1/orders, method: POST }, cost: 4, class: writes }
cell: { classes: { writes: {} } }
";

fn cost(method: Method, path: &str, query: Option<&str>) -> u32 {
    with(ROUTES).classify(&method, path, query).cost
}

fn get(path: &str) -> u32 {
    cost(Method::GET, path, None)
}

#[test]
fn a_path_matches_whole_segments() {
    assert_eq!(get("/v1/search"), 8);
    assert_eq!(get("/v1/search/"), 8);
    assert_eq!(get("/v1/search/x"), 8);
    assert_eq!(get("/v1/searching"), 1);
    assert_eq!(get("/v1"), 1);
}

#[test]
fn no_spelling_of_a_path_escapes_its_route() {
    for path in [
        "//v1/search",
        "/v1//search",
        "/v1/./search",
        "/x/../v1/search",
        "/x/%2e%2E/v1/search",
        "/v1/%73earch",
        "/v1/se%61rch/x",
        "/v1/search/.",
        "/../v1/search",
    ] {
        assert_eq!(get(path), 8, "{path}");
    }
    assert_eq!(get("/v1/search/.."), 1);
    assert_eq!(get("/v1/search%2Fx"), 1);
}

#[test]
fn a_query_must_have_its_pairs_and_may_have_more() {
    let deep = |query| cost(Method::GET, "/v1/search", Some(query));
    assert_eq!(deep("a=b&deep=1"), 16);
    assert_eq!(deep("d%65ep=%31"), 16);
    assert_eq!(deep("deep=0&deep=1"), 16);
    assert_eq!(deep("deep=0"), 8);
    assert_eq!(deep(""), 8);
}

#[test]
fn a_method_is_matched_where_the_route_names_one() {
    assert_eq!(cost(Method::POST, "/v1/orders", None), 4);
    assert_eq!(cost(Method::GET, "/v1/orders", None), 1);
}

#[test]
fn what_no_route_matches_has_the_default_route() {
    let fleet = with(ROUTES);
    for path in ["/", "", "*", "/x"] {
        let route = fleet.classify(&Method::OPTIONS, path, None);
        let class = &fleet.cell.classes[route.class.get()];
        assert_eq!((class.name.as_str(), route.cost, route.timeout), ("default", 1, Duration::from_secs(15)));
    }
}
