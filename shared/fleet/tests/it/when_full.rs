//! What the file says of a cell that has no room or whose backend fails: fallbacks, breakers and ceilings that follow the
//! latency.

use std::time::Duration;

use cofferdam_fleet::{AdaptiveRules, BreakerRules, Fallback, Share, StaticAnswer};
use http::Method;

use crate::{refused, with};

#[test]
fn a_route_falls_back_to_a_last_good_answer_or_to_one_that_is_always_the_same() {
    let fallback = |text: &str| {
        let fleet = with(&format!("routes: [{{ match: {{ path: /x }}, fallback: {text} }}]"));
        fleet.routes.as_slice()[0].fallback.clone().unwrap()
    };
    assert_eq!(
        fallback("{ last_good: 60s }"),
        Fallback { last_good: Some(Duration::from_secs(60)), answer: None }
    );
    let answer = |status, content_type: &'static str, body: &str| {
        Some(StaticAnswer { status, content_type: content_type.parse().unwrap(), body: body.into() })
    };
    let both = fallback("{ last_good: 1h, status: 203, type: text/html, body: '<p>later</p>' }");
    assert_eq!(
        (both.last_good, both.answer),
        (Some(Duration::from_secs(3600)), answer(203, "text/html", "<p>later</p>"))
    );
    assert_eq!(fallback("{ body: '[]' }").answer, answer(200, "application/json", "[]"));
}

#[test]
fn a_class_says_for_its_routes_what_they_do_not_say_themselves() {
    let fleet = with(
        "routes:
  - { match: { path: /list }, class: search }
  - { match: { path: /page }, class: search, timeout: 3s, fallback: { last_good: 60s } }
  - { match: { path: /pay }, class: checkout }
cell:
  classes:
    search: { timeout: 2s, fallback: { body: '[]' } }
    checkout: { timeout: 1s }
    default: { fallback: { body: later } }",
    );
    let of = |path: &str| {
        let route = fleet.classify(&Method::GET, path, None);
        let fallback = route.fallback.as_ref();
        let body = fallback.and_then(|fallback| Some(&*fallback.answer.as_ref()?.body));
        (route.timeout.as_secs(), body, fallback.and_then(|fallback| fallback.last_good))
    };
    assert_eq!(of("/list"), (2, Some("[]"), None));
    assert_eq!(
        of("/page"),
        (3, None, Some(Duration::from_secs(60))),
        "a route's own word counts, and counts whole"
    );
    assert_eq!(of("/pay"), (1, None, None));
    assert_eq!(of("/"), (15, Some("later"), None), "what no route matches is of the class default");
}

#[test]
fn a_class_is_a_semaphore_whether_the_file_says_so_or_not() {
    let said = "cell: { classes: { default: { kind: semaphore } } }";
    assert_eq!(with(said).cell, with("cell: { classes: { default: {} } }").cell);
}

#[test]
fn breakers_and_adaptive_ceilings_have_defaults() {
    let fleet = with(
        "cell: { breaker: { failures: 9, share: 0.25, window: 1min, open_for: 5s, probes: 3 },\n\
         dependencies: { db: { breaker: {} }, mail: {} },\n\
         classes: { a: { adaptive: {} }, b: { adaptive: { tolerance: 2 } }, default: {} } }\n\
         routes: [{ match: { path: /x }, dependency: db }, { match: { path: /y }, dependency: mail }]",
    );
    let whole = BreakerRules {
        failures: 9,
        share: Share::from_millionths(250_000),
        window: Duration::from_secs(60),
        open_for: Duration::from_secs(5),
        probes: 3,
    };
    assert_eq!(fleet.cell.breaker, Some(whole));
    let of_dependencies: Vec<_> =
        fleet.cell.dependencies.iter().map(|dependency| dependency.breaker).collect();
    assert_eq!(of_dependencies, [Some(BreakerRules::default()), None]);
    let adaptive: Vec<_> = fleet.cell.classes.iter().map(|class| class.adaptive).collect();
    let tolerance = |tolerance_thousandths| Some(AdaptiveRules { tolerance_thousandths });
    assert_eq!(adaptive, [tolerance(1500), tolerance(2000), None]);
}

#[test]
fn what_cannot_be_used_is_refused() {
    refused(&[
        (
            "routes: [{ match: { path: /x }, fallback: {} }]",
            "5:43: routes[0].fallback: a fallback is last_good, such as 60s, or a body, or both",
        ),
        (
            "routes: [{ match: { path: /x }, fallback: { last_good: 60s, status: 200 } }]",
            "5:69: routes[0].fallback.status: status needs a body beside it",
        ),
        (
            "cell: { classes: { default: { adaptive: { tolerance: 1 } } } }",
            "5:54: cell.classes.default.adaptive.tolerance: 1 is outside 1.05 to 10",
        ),
        (
            "cell: { classes: { default: { timeout: 0s } } }",
            "5:40: cell.classes.default.timeout: 0s is outside 1ms to 3600s",
        ),
        (
            "cell: { classes: { default: { fallback: { last_good: 60s, status: 200 } } } }",
            "5:67: cell.classes.default.fallback.status: status needs a body beside it",
        ),
        (
            "cell: { classes: { default: { kind: pool } } }",
            "5:37: cell.classes.default.kind: an agent has no threads to keep for a class, since the work is its backend's: give \
             the class a floor as large as its ceiling, and a pool to the backend (cofferdam_bulkhead::Pool)",
        ),
        (
            "cell: { classes: { default: { kind: thread } } }",
            "5:37: cell.classes.default.kind: \"thread\" is not a kind of class: expected semaphore",
        ),
        ("cell: { breaker: { failures: 0 } }", "5:30: cell.breaker.failures: 0 is outside 1 to 1000000"),
    ]);
}
