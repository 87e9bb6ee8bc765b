//! Caps of routes, dependencies, and the weights of plans.

use crate::{TWO_CELLS, parse, refusal, with};

const ROUTES: &str = "
routes:
  - { match: { path: /pay }, max_in_flight: 4, dependency: payments }
  - { match: { path: /mail }, dependency: mail }
cell:
  max_in_flight: 40
  dependencies: { payments: { max_in_flight: 6 }, mail: {} }
";

#[test]
fn routes_have_caps_and_name_dependencies() {
    let fleet = with(ROUTES);
    let names: Vec<_> =
        fleet.cell.dependencies.iter().map(|each| (each.name.as_str(), each.max_in_flight)).collect();
    assert_eq!(names, [("mail", None), ("payments", Some(6))]);
    let routes = fleet.routes.as_slice();
    let of = |at: usize| (routes[at].max_in_flight, routes[at].dependency.map(|dependency| dependency.get()));
    assert_eq!([of(0), of(1), of(2)], [(Some(4), Some(1)), (None, Some(0)), (None, None)]);
}

#[test]
fn a_plan_has_a_weight() {
    let plans = "plans: { a: { sustained: 1/s, burst: 1, max_in_flight: 1, weight: 5 },
         b: { sustained: 1/s, burst: 1, max_in_flight: 1 } }";
    let weights: Vec<_> = with(plans).plans.iter().map(|plan| plan.weight).collect();
    assert_eq!(weights, [5, 1]);
    let heavy = plans.replace("weight: 5", "weight: 1001");
    assert!(refusal(&format!("{TWO_CELLS}{heavy}")).ends_with("plans.a.weight: 1001 is outside 1 to 1000"));
}

#[test]
fn a_cap_that_cannot_work_is_refused_and_one_that_does_nothing_is_told() {
    for (from, to, said) in [
        ("max_in_flight: 4,", "max_in_flight: 0,", "routes[0].max_in_flight: 0 is outside 1 to 4294967295"),
        (
            "max_in_flight: 4,",
            "max_in_flight: 41,",
            "routes[0].max_in_flight: max_in_flight 41 exceeds the cell's 40 places",
        ),
        (
            "max_in_flight: 6",
            "max_in_flight: 41",
            "cell.dependencies.payments.max_in_flight: max_in_flight 41 exceeds the cell's 40 places",
        ),
        (
            "dependency: mail",
            "dependency: mial",
            "routes[1].dependency: dependency \"mial\" is not defined; did you mean `mail`?",
        ),
    ] {
        let said_of = refusal(&format!("{TWO_CELLS}{}", ROUTES.replace(from, to)));
        assert!(said_of.contains(said), "{said_of}");
    }
    let text =
        ROUTES.replace("max_in_flight: 4,", "max_in_flight: 40,").replace(", dependency: payments", "");
    let warnings: Vec<_> =
        parse(&format!("{TWO_CELLS}{text}")).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|told| told.ends_with("40 stops nobody: class default has a ceiling of 40")));
    assert!(
        warnings
            .iter()
            .any(|told| told.ends_with("cell.dependencies.payments: no route names this dependency")),
        "{warnings:?}"
    );
}
