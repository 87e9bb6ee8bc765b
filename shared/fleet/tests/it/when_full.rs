//! What the file says of a cell that has no room or whose backend fails: fallbacks, breakers and ceilings that follow the
//! latency.

use std::time::Duration;

use cofferdam_fleet::{AdaptiveRules, BreakerRules, Fallback, Share, StaticAnswer};

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
        ("cell: { breaker: { failures: 0 } }", "5:30: cell.breaker.failures: 0 is outside 1 to 1000000"),
    ]);
}
