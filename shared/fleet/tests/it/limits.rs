//! The words of limits: quotas, routes' own limits and shapes, shadows, and what happens where the store is away.

use std::time::Duration;

use cofferdam_fleet::{Bucket, LimitMode, Quota, Shape};
use cofferdam_model::{OnStoreFailure, Rate};
use http::Method;

use crate::{parse, refused, with};

/// A plan with these words beside the three that it needs.
fn plan(more: &str) -> String {
    format!("plans: {{ p: {{ sustained: 20/s, burst: 100, max_in_flight: 10, {more} }} }}")
}

/// One route with these words.
fn route(more: &str) -> String {
    format!("routes: [{{ match: {{ path: /x }}, {more} }}]")
}

fn quotas(text: &str) -> Vec<(u32, u64)> {
    let fleet = with(&plan(&format!("quota: {text}")));
    fleet.plans[0].quotas.iter().map(|Quota { window_s, limit }| (*window_s, *limit)).collect()
}

#[test]
fn quotas_are_read_shortest_first() {
    // P54
    assert_eq!(quotas("{ 30d: 200M, 1d: 10M }"), [(86_400, 10_000_000), (2_592_000, 200_000_000)]);
    for (window, seconds) in
        [("1s", 1), ("90s", 90), ("5min", 300), ("5m", 300), ("12h", 43_200), ("366d", 31_622_400)]
    {
        assert_eq!(quotas(&format!("{{ {window}: 7 }}")), [(seconds, 7)], "{window}");
    }
}

#[test]
fn a_quota_that_means_nothing_is_refused() {
    let refuse = |quota: &str, expected: &str| refused(&[(&plan(&format!("quota: {quota}")), expected)]);
    // `plans: { p: { sustained: 20/s, burst: 100, max_in_flight: 10, quota: ` is 71 characters long.
    refuse("{ 1mo: 5 }", "5:72: plans.p.quota.1mo: \"1mo\" is not a window such as 1d, 12h or 30d");
    refuse("{ d: 5 }", "5:72: plans.p.quota.d: \"d\" is not a window such as 1d, 12h or 30d");
    refuse("{ 100ms: 5 }", "5:72: plans.p.quota.100ms: \"100ms\" is not a window such as 1d, 12h or 30d");
    refuse("{ 0s: 5 }", "5:72: plans.p.quota.0s: a window of 0s is outside 1s to 366d");
    refuse("{ 367d: 5 }", "5:72: plans.p.quota.367d: a window of 367d is outside 1s to 366d");
    refuse("{ 1d: 0 }", "5:76: plans.p.quota.1d: a quota of 0 lets nothing pass");
    refuse("{ 1d: much }", "5:76: plans.p.quota.1d: \"much\" is not a count such as 100, 20k or 10M");
    refuse(
        "{ 30d: 2000M }",
        "5:77: plans.p.quota.30d: quota 2000000000 is too large to be counted exactly in 30d: at most 1737499856",
    );
    refuse("{ 1d: 5, 24h: 6 }", "5:79: plans.p.quota.24h: a window of 86400 s comes twice");
    refuse("{ 1s: 1, 1h: 2, 1d: 5 }", "5:70: plans.p.quota: 3 windows exceed 2");
    refuse("{}", "5:70: plans.p.quota: a quota needs a window, such as 1d: 10M; or leave this out");
    refuse(
        "5",
        "5:70: plans.p.quota: expected a map from windows to tokens, such as { 1d: 10M, 30d: 200M }, found \"5\"",
    );
}

#[test]
fn a_quota_that_another_makes_useless_is_told() {
    let warned = |quota: &str| {
        let text =
            format!("{}{}\ntenant: {{ unknown: p }}\n", crate::TWO_CELLS, plan(&format!("quota: {quota}")));
        let warnings = parse(&text).unwrap().warnings;
        warnings.iter().map(ToString::to_string).filter(|said| said.contains("quota")).collect::<Vec<_>>()
    };
    assert_eq!(
        warned("{ 30d: 5, 1d: 5 }"),
        ["5:80: plans.p.quota.1d: this quota is never reached: 5 in 2592000 s is reached first"]
    );
    assert_eq!(
        warned("{ 1d: 5, 30d: 5 }"),
        ["5:79: plans.p.quota.30d: the quota of 5 in 86400 s is never reached: this one is reached first"]
    );
    assert_eq!(warned("{ 1d: 5, 30d: 6 }"), [""; 0]);
}

#[test]
fn a_cost_above_a_quota_is_told() {
    let text = format!(
        "{}{}\ntenant: {{ unknown: p }}\n{}",
        crate::TWO_CELLS,
        plan("quota: { 1d: 10 }"),
        route("cost: 11")
    );
    let warnings = parse(&text).unwrap().warnings;
    let said: Vec<_> =
        warnings.iter().map(ToString::to_string).filter(|said| said.contains("cost")).collect();
    assert_eq!(said, ["7:10: routes[0]: cost 11 exceeds the quota 10 of plan p: always refused"]);
}

#[test]
fn routes_have_limits_and_shapes_of_their_own() {
    let fleet = with(&route(
        "limit: { sustained: 2/s, burst: 20 }, shape: { rate: 5/s, queue: 10, max_wait: 2s }, settle: true, \
         on_store_failure: closed",
    ));
    let found = fleet.classify(&Method::GET, "/x/y", None);
    let rate = |text: &str| text.parse::<Rate>().unwrap();
    assert_eq!(found.limit, Some(Bucket { sustained: rate("2/s"), burst: 20 }));
    assert_eq!(found.shape, Some(Shape { rate: rate("5/s"), queue: 10, max_wait: Duration::from_secs(2) }));
    assert_eq!((found.settle, found.on_store_failure), (true, Some(OnStoreFailure::Closed)));
    let other = fleet.classify(&Method::GET, "/", None);
    assert_eq!((other.limit, other.shape, other.settle, other.on_store_failure), (None, None, false, None));
    let nobody = with(&route("shape: { rate: 5/s, queue: 0 }"));
    let shape = nobody.classify(&Method::GET, "/x", None).shape.unwrap();
    assert_eq!((shape.queue, shape.max_wait), (0, Duration::ZERO));
}

#[test]
fn a_limit_or_a_shape_that_cannot_work_is_refused() {
    // P55
    let refuse = |words: &str, expected: &str| refused(&[(&route(words), expected)]);
    refuse(
        "limit: { sustained: 2/s }",
        "5:40: routes[0].limit: missing key `burst`: expected both of sustained and burst",
    );
    refuse(
        "limit: { sustained: 7/d, burst: 200k }",
        "5:65: routes[0].limit.burst: burst 200000 is too large to be counted exactly at 7/d: at most 104249",
    );
    refuse(
        "shape: { rate: 5/s, queue: unbounded, max_wait: 1s }",
        "5:60: routes[0].shape.queue: queue unbounded has no usable bound: expected a whole number from 0 to 100000",
    );
    refuse(
        "shape: { rate: 5/s, max_wait: 1s }",
        "5:40: routes[0].shape: missing key `queue`: expected how many may wait, such as 20; 0 for nobody",
    );
    refuse(
        "shape: { rate: 5/s, queue: 5 }",
        "5:40: routes[0].shape: missing key `max_wait`: expected how long one may wait, such as 2s",
    );
    refuse(
        "shape: { rate: 5/s, queue: 5, max_wait: 0s }",
        "5:73: routes[0].shape.max_wait: 0s is outside 1ms to 60s",
    );
    refuse(
        "shape: { rate: 5/s, queue: 0, max_wait: 1s }",
        "5:73: routes[0].shape.max_wait: nobody waits in a line of 0: give it a queue, or leave this out",
    );
    refuse(
        "timeout: 1s, shape: { rate: 5/s, queue: 5, max_wait: 1s }",
        "5:86: routes[0].shape.max_wait: max_wait 1s is not below the route's timeout of 1s",
    );
    refuse(
        "timeout: 30s, shape: { rate: 999999937/s, queue: 5, max_wait: 20s }",
        "5:95: routes[0].shape.max_wait: a wait of 20s is too long to be counted exactly at 999999937/s",
    );
    refuse("shape: { queue: 0 }", "5:40: routes[0].shape: missing key `rate`: expected a rate such as 20/s");
    refuse("settle: perhaps", "5:41: routes[0].settle: \"perhaps\" is not true or false");
}

#[test]
fn a_line_that_is_never_full_is_told() {
    let text = format!("{}{}\n", crate::TWO_CELLS, route("shape: { rate: 5/s, queue: 100, max_wait: 2s }"));
    let warnings = parse(&text).unwrap().warnings;
    let said: Vec<_> =
        warnings.iter().map(ToString::to_string).filter(|said| said.contains("shape")).collect();
    assert_eq!(
        said,
        ["5:60: routes[0].shape.queue: at 5/s no more than 10 ever wait: the next would wait longer than 2s"]
    );
}

#[test]
fn shadows_and_what_happens_without_the_store_are_read_wherever_they_stand() {
    let fleet = with(&format!(
        "{}\nceiling: {{ max_in_flight: 5, shadow: true }}\n\
         limits: {{ mode: exact, routers: 3, on_store_failure: open, shadow: true, older_fields: false }}",
        plan("shadow: true, on_store_failure: closed")
    ));
    let plan = &fleet.plans[0];
    assert_eq!((plan.shadow, plan.on_store_failure), (true, Some(OnStoreFailure::Closed)));
    assert!(fleet.ceiling.shadow && fleet.limits.shadow && !fleet.limits.older_fields);
    assert_eq!((fleet.limits.mode, fleet.limits.routers), (LimitMode::Exact, Some(3)));
    assert_eq!(fleet.limits.on_store_failure, OnStoreFailure::Open);
}

#[test]
fn a_word_that_no_limit_knows_is_refused() {
    refused(&[
        ("limits: { mode: fast }", "5:17: limits.mode: \"fast\" is not exact, lease, auto or off"),
        ("limits: { routers: 0 }", "5:20: limits.routers: 0 is outside 1 to 10000"),
        (
            "limits: { on_store_failure: fail }",
            "5:29: limits.on_store_failure: \"fail\" is not local, open or closed",
        ),
        ("limits: { older_fields: 1 }", "5:25: limits.older_fields: \"1\" is not true or false"),
        ("ceiling: { shadow: 1 }", "5:20: ceiling.shadow: \"1\" is not true or false"),
    ]);
}

#[test]
fn a_routes_match_reads_the_same_in_any_order() {
    let text = |query: &str| {
        let fleet = with(&format!("routes: [{{ match: {{ path: /x, method: GET, query: {query} }} }}]"));
        fleet.routes.as_slice()[0].matches_text()
    };
    assert_eq!(text("{ a: '1', b: '2' }"), text("{ b: '2', a: '1' }"));
    assert_ne!(text("{ a: '1', b: '2' }"), text("{ a: '1&b=2' }"));
    let fleet = with("");
    assert_eq!(fleet.routes.as_slice()[0].matches_text(), "* / ");
}
