//! Every word of the example, changed in turn, is told as a change of that setting.

use std::path::Path;

use cofferdam_fleet::{Fleet, Scope, SettingChange};
use serde_json::{Value, json};

use crate::with;

/// Another valid value for each word of the example. `*` stands for a name or a number of a list, `KEY` for a word that is
/// renamed. Several rows of one word are tried until one of them fits: a floor has to stay below its own ceiling.
const OTHERS: &[(&str, &str)] = &[
    ("fleet", r#""acme-stage""#),
    ("revision", "43"),
    ("cells.*.id", r#""cell-z""#),
    ("cells.*.url", r#""http://10.0.9.9:7100""#),
    ("cells.*.probe", r#""http://10.0.9.9:7101""#),
    ("cells.*.zone", r#""east-9""#),
    ("cells.*.weight", "3"),
    ("cells.*.state", r#""disabled""#),
    ("cells.*.until", r#""2028-01-31T18:00:00Z""#),
    ("placement.slots", "1048576"),
    ("placement.seed", "7"),
    ("placement.shard_size", "1"),
    ("placement.choose", r#""balance""#),
    ("placement.inclusion", r#""proportional""#),
    ("placement.max_inclusion", "0.7"),
    ("placement.max_new_cells", "5"),
    ("placement.movement_budget", r#""9/min""#),
    ("placement.tell", "true"),
    ("placement.force", r#""another reason""#),
    ("placement.pins.*", r#"["cell-a", "cell-b"]"#),
    ("placement.quarantine.*", r#"["ward-2"]"#),
    ("placement.affinity.cookie", r#""place""#),
    ("tenant.extra_characters", r#""_.""#),
    ("tenant.from.*.header.name", r#""x-customer""#),
    ("tenant.from.*.header.trusted", r#"["10.0.0.0/9"]"#),
    ("tenant.from.*.host.pattern", r#""{tenant}.web.example""#),
    ("tenant.from.*.host.reserved", r#"["api"]"#),
    ("tenant.from.*.host.must_agree", "false"),
    ("tenant.from.*.path.pattern", r#""/u/{tenant}""#),
    ("tenant.plan_of.*", r#""pro""#),
    ("tenant.unknown", r#""refuse""#),
    ("plans.*.sustained", r#""7/s""#),
    ("plans.*.burst", "77"),
    ("plans.*.max_in_flight", "7"),
    ("plans.*.quota.1d", r#""2M""#),
    ("plans.*.quota.30d", r#""3M""#),
    ("plans.*.weight", "7"),
    ("plans.*.on_store_failure", r#""closed""#),
    ("plans.*.shard_size", "1"),
    ("plans.*.shadow", "false"),
    ("ceiling.sustained", r#""7k/s""#),
    ("ceiling.burst", "7000"),
    ("ceiling.max_in_flight", "7000"),
    ("ceiling.shadow", "true"),
    ("limits.mode", r#""exact""#),
    ("limits.routers", "3"),
    ("limits.on_store_failure", r#""open""#),
    ("limits.jitter", "0.2"),
    ("limits.shadow", "true"),
    ("limits.max_tenants", "7000"),
    ("limits.older_fields", "false"),
    ("routes.*.match.path", r#""/elsewhere""#),
    ("routes.*.match.query.deep", r#""2""#),
    ("routes.*.match.method", r#""POST""#),
    ("routes.*.class", r#""search""#),
    ("routes.*.class", r#""reports""#),
    ("routes.*.cost", "3"),
    ("routes.*.timeout", r#""9s""#),
    ("routes.*.settle", "false"),
    ("routes.*.limit.sustained", r#""3/s""#),
    ("routes.*.limit.burst", "30"),
    ("routes.*.fallback.last_good", r#""70s""#),
    ("routes.*.fallback.body", r#""[]""#),
    ("routes.*.on_store_failure", r#""open""#),
    ("routes.*.max_in_flight", "9"),
    ("routes.*.shape.rate", r#""6/s""#),
    ("routes.*.shape.queue", "9"),
    ("routes.*.shape.max_wait", r#""3s""#),
    ("routes.*.dependency", r#""mail""#),
    ("retry_budget.ratio", "0.3"),
    ("retry_budget.floor", r#""9/s""#),
    ("retry_budget.tenant_ratio", "0.3"),
    ("retry_budget.tenant_floor", r#""3/s""#),
    ("edge.underscores", r#""refuse""#),
    ("edge.forwarded", r#"["forwarded"]"#),
    ("poison_guard", "false"),
    ("health.fall", "3"),
    ("health.rise", "3"),
    ("health.slow_start", r#""20s""#),
    ("cell.max_in_flight", "210"),
    ("cell.tenant_share", "0.5"),
    ("cell.max_tenants", "7000"),
    ("cell.classes.*.priority", "5"),
    ("cell.classes.*.floor", "6"),
    ("cell.classes.*.ceiling", "90"),
    ("cell.classes.*.queue", "7"),
    ("cell.classes.*.max_wait", r#""70ms""#),
    ("cell.classes.*.timeout", r#""3s""#),
    ("cell.classes.*.adaptive.tolerance", "3"),
    ("cell.classes.*.fallback.last_good", r#""2h""#),
    ("cell.dependencies.*.max_in_flight", "70"),
    ("cell.dependencies.*.breaker.failures", "6"),
    ("cell.dependencies.*.breaker.share", "0.6"),
    ("cell.dependencies.*.breaker.window", r#""20s""#),
    ("cell.dependencies.*.breaker.open_for", r#""40s""#),
    ("cell.dependencies.*.breaker.probes", "2"),
    ("cell.breaker.failures", "21"),
];

/// Words that have one value alone.
const ONE_VALUE: &str = "cell.classes.*.kind";

/// The example, with a second ward and a second dependency to change to, and a plan whose tenants have no pins.
fn example() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/fleet.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut example: Value = serde_saphyr::from_str(&text).unwrap();
    let ward = json!({ "id": "ward-2", "url": "http://10.0.2.91:7100", "state": "quarantine" });
    example["cells"].as_array_mut().unwrap().push(ward);
    example["cell"]["dependencies"]["mail"] = json!({ "max_in_flight": 50 });
    example["plans"]["solo"] =
        json!({ "sustained": "1/s", "burst": 99999, "max_in_flight": 1, "shard_size": 2 });
    example
}

/// The words of a value that hold no words themselves, as pointers. A list of plain values is one word.
fn words(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            words(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found)
        }),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().for_each(|(at, item)| words(item, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Whether a pointer is of the kind that a row names.
fn is_kind(pointer: &str, kind: &str) -> bool {
    let (steps, kinds): (Vec<_>, Vec<_>) = (pointer.split('/').skip(1).collect(), kind.split('.').collect());
    steps.len() == kinds.len() && steps.iter().zip(&kinds).all(|(step, kind)| *kind == "*" || step == kind)
}

fn parse(value: &Value) -> Result<Fleet, String> {
    Fleet::parse(&value.to_string(), Path::new("."))
        .map(|loaded| loaded.fleet)
        .map_err(|error| error.to_string())
}

/// The setting by which a change of a word has to be told: the path as the settings have it, or the beginning of an item whose
/// very name changes.
fn told_as(example: &Value, pointer: &str) -> String {
    let steps: Vec<_> = pointer.split('/').skip(1).collect();
    let at = |list: &str| &example[list][steps[1].parse::<usize>().unwrap()];
    match steps.as_slice() {
        ["cells", _, "id"] => "cells[cell-z]".to_owned(),
        ["cells", _, word] => format!("cells[{}].{word}", at("cells")["id"].as_str().unwrap()),
        ["placement", "affinity", ..] => "placement.affinity".to_owned(),
        ["plans", plan, "quota", _] => format!("plans.{plan}.quota"),
        ["tenant", "from", _, _, word @ ("trusted" | "reserved" | "must_agree")] => word.to_string(),
        ["tenant", "from", ..] => "tenant.from[".to_owned(),
        ["routes", _, "match", ..] => "routes[".to_owned(),
        ["routes", _, rest @ ..] => {
            format!("{}].{}", at("routes")["match"]["path"].as_str().unwrap(), rest.join("."))
        }
        steps => steps.join("."),
    }
}

fn is_told(changes: &[SettingChange], name: &str) -> bool {
    let names = |key: &str| match name.ends_with('[') {
        true => key.starts_with(name),
        // A route is named by its query and its method as well.
        false => {
            key == name || key.ends_with(&format!(".{name}")) || key.replace("?deep=1]", "]").ends_with(name)
        }
    };
    changes.iter().any(|change| names(&change.key))
}

/// The changes that a row makes of a word, where it makes a file that can be used. One word that others lean on, such as the name
/// of a cell that has a pin, cannot be changed alone.
fn changes_by(before: &Fleet, example: &Value, pointer: &str, other: &str) -> Option<Vec<SettingChange>> {
    let mut changed = example.clone();
    let word = changed.pointer_mut(pointer).unwrap();
    let other = serde_json::from_str(other).unwrap();
    if *word == other {
        return None;
    }
    *word = other;
    parse(&changed).ok().map(|after| before.changes(&after))
}

#[test]
fn every_word_of_the_example_is_told_when_it_changes() {
    let example = example();
    let before = parse(&example).unwrap();
    assert_eq!(before.changes(&before), []);
    let mut pointers = Vec::new();
    words(&example, "", &mut pointers);
    pointers.retain(|pointer| !is_kind(pointer, ONE_VALUE));
    let mut told = vec![0; OTHERS.len()];
    for pointer in &pointers {
        let rows: Vec<_> = (0..OTHERS.len()).filter(|row| is_kind(pointer, OTHERS[*row].0)).collect();
        assert!(
            !rows.is_empty(),
            "{pointer} is a new word: list it among the settings, and give it a row here"
        );
        for row in rows {
            let Some(changes) = changes_by(&before, &example, pointer, OTHERS[row].1) else { continue };
            let name = told_as(&example, pointer);
            assert!(is_told(&changes, &name), "{pointer} as {name}: {changes:#?}");
            told[row] += 1;
        }
    }
    let untold: Vec<_> = OTHERS.iter().zip(&told).filter(|(_, told)| **told == 0).collect();
    assert!(untold.is_empty(), "these rows change nothing: {untold:?}");
}

/// Each change as `key: before -> after`.
fn told(before: &str, after: &str) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or("none".to_owned());
    let line = |change: &SettingChange| {
        format!("{}: {} -> {}", change.key, text(&change.before), text(&change.after))
    };
    with(before).changes(&with(after)).iter().map(line).collect()
}

#[test]
fn a_value_that_is_written_in_another_way_or_is_the_default_is_no_change() {
    for (before, after) in [
        ("", "limits: { mode: auto, jitter: 0.1 }"),
        (
            "",
            "plans: { default: { sustained: 1k/s, burst: 2k, max_in_flight: 200 } }\ntenant: { unknown: default }",
        ),
        ("", "routes: [{ match: { path: / } }]"),
        ("", "cell: { classes: { default: { queue: 20, max_wait: 100ms } } }"),
        ("ceiling: { max_in_flight: 20k }", "ceiling: { max_in_flight: 20000, shadow: false }"),
    ] {
        assert_eq!(told(before, after), [""; 0], "{after}");
    }
}

#[test]
fn a_change_of_the_default_plan_is_told() {
    let after =
        "plans: { default: { sustained: 5/s, burst: 2k, max_in_flight: 200 } }\ntenant: { unknown: default }";
    assert_eq!(told("", after), ["plans.default.sustained: 1000/s -> 5/s"]);
    let changes = with("").changes(&with(after));
    assert!(matches!(&changes[0].scope, Scope::Plan(plan) if plan.as_str() == "default"), "{changes:?}");
}

#[test]
fn an_item_that_comes_or_goes_is_one_change_with_all_of_its_words() {
    let route =
        "{ match: { path: /a, method: GET, query: { q: x } }, cost: 3, limit: { sustained: 2/s, burst: 5 } }";
    let told_route = "routes[GET /a?q=x]: none -> class default, cost 3, timeout 15s, limit.sustained 2/s, limit.burst 5, settle false";
    assert_eq!(told("", &format!("routes: [{route}]")), [told_route]);
    let gone = told("cell: { dependencies: { db: {} } }", "");
    assert_eq!(gone, ["cell.dependencies.db: max_in_flight no limit -> none"]);
    assert_eq!(
        told("", "cell: { breaker: { failures: 7 } }"),
        ["cell.breaker: none -> failures 7, share 0.5, window 10s, open_for 30s, probes 1"]
    );
    assert_eq!(told("ceiling: { max_in_flight: 9 }", ""), ["ceiling.max_in_flight: 9 -> none"]);
}

#[test]
fn a_class_takes_the_routes_that_follow_it_along() {
    let file = |timeout: &str| {
        format!(
            "cell: {{ classes: {{ a: {{ floor: 1, timeout: {timeout} }}, default: {{ floor: 1 }} }} }}\n\
             routes: [{{ match: {{ path: /a }}, class: a }}]"
        )
    };
    assert_eq!(
        told(&file("1s"), &file("250ms")),
        ["routes[/a].timeout: 1s -> 250ms", "cell.classes.a.timeout: 1s -> 250ms"]
    );
}

#[test]
fn an_order_that_decides_is_told_where_it_changes() {
    let routes = |paths: [&str; 4]| {
        let routes = paths.map(|path| format!("{{ match: {{ path: {path} }}, cost: 2 }}"));
        format!("routes: [{}]", routes.join(", "))
    };
    let (before, after) = (routes(["/a", "/b", "/c", "/"]), routes(["/a", "/c", "/b", "/"]));
    assert_eq!(told(&before, &after), ["routes.order: /b, /c -> /c, /b"]);
    // One that is new in front of others is new, and no other order.
    let longer = before.replace("routes: [", "routes: [{ match: { path: /new }, cost: 2 }, ");
    assert_eq!(told(&before, &longer).len(), 1);
    let sources = |order: &str| format!("tenant: {{ from: [{order}] }}");
    let (host, path) = ("host: { pattern: '{tenant}.x.y' }", "path: { pattern: '/t/{tenant}' }");
    assert_eq!(
        told(
            &sources(&format!("{{ {host} }}, {{ {path} }}")),
            &sources(&format!("{{ {path} }}, {{ {host} }}"))
        ),
        ["tenant.from.order: host {tenant}.x.y, path /t/{tenant} -> path /t/{tenant}, host {tenant}.x.y"]
    );
}

#[test]
fn a_seed_is_never_shown() {
    assert_eq!(
        told("placement: { seed: 11 }", "placement: { seed: 12 }"),
        ["placement.seed: (secret) -> (secret)"]
    );
}
