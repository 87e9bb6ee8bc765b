//! What binds a tenant beside the levels: its share in each of its cells, caps, shapes, and what is in force while the store is
//! away. For people.

use serde_json::Value;

use crate::asked::{list, word};

/// What people call a level: a route's by what it matches.
pub(crate) fn level_name(level: &Value) -> String {
    match level["route"].as_str() {
        Some(route) => format!("route {route}"),
        None => word(&level["level"]),
    }
}

/// What binds in each of the tenant's cells, line by line; nothing where no router was asked.
pub(super) fn in_cells(answer: &Value) -> Vec<String> {
    let rules = &answer["in_each_cell"];
    if rules.is_null() {
        return Vec::new();
    }
    let [places, share] = ["max_in_flight", "tenant_share"].map(|name| word(&rules[name]));
    let cells = list(&rules["cells"]);
    let mut lines = vec![format!(
        "in each of its cells ({cells}): {places} places; one tenant may hold {share} of a class"
    )];
    let mut table = comfy_table::Table::new();
    let header = ["class", "one tenant", "all tenants", "kept for it", "may wait", "for"];
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for class in rules["classes"].as_array().into_iter().flatten() {
        let adaptive = if class["is_adaptive"] == true { ", by latency" } else { "" };
        let has_queue = class["queue"].as_u64().is_some_and(|queue| queue > 0);
        table.add_row([
            word(&class["class"]),
            word(&class["tenant_places"]),
            format!("{}{adaptive}", word(&class["ceiling"])),
            word(&class["floor"]),
            word(&class["queue"]),
            if has_queue { format!("{} ms", word(&class["max_wait_ms"])) } else { "-".to_owned() },
        ]);
    }
    lines.push(table.to_string());
    let breaker = |has: &Value| if *has == true { ", behind a breaker" } else { "" };
    for dependency in rules["dependencies"].as_array().into_iter().flatten() {
        let most = dependency["max_in_flight"].as_u64();
        let most =
            most.map_or_else(|| "no cap".to_owned(), |most| format!("at most {most} in flight in a cell"));
        let name = word(&dependency["dependency"]);
        lines.push(format!("dependency {name}: {most}{}", breaker(&dependency["has_breaker"])));
    }
    if rules["has_breaker"] == true {
        lines.push("backend: behind a breaker".to_owned());
    }
    lines.extend(rules["routes"].as_array().into_iter().flatten().map(of_route));
    lines
}

/// A route's cap, shape and dependency.
fn of_route(route: &Value) -> String {
    let mut binds = vec![format!("class {}", word(&route["class"]))];
    if let Some(most) = route["max_in_flight"].as_u64() {
        binds.push(format!("at most {most} in flight in a cell"));
    }
    binds.extend(route["dependency"].as_str().map(|name| format!("under the cap of dependency {name}")));
    let shape = &route["shape"];
    if shape.is_object() {
        let [rate, queue, wait] = ["rate", "queue", "max_wait_ms"].map(|name| word(&shape[name]));
        binds.push(format!("all tenants together evenly at {rate}, {queue} in line for at most {wait} ms"));
    }
    format!("route {}: {}", word(&route["route"]), binds.join(", "))
}

/// What is in force while the store is away, level by level; nothing without a store.
pub(super) fn without_store(answer: &Value) -> Vec<String> {
    let levels = answer["levels"].as_array().into_iter().flatten();
    let lines: Vec<_> = levels.filter_map(of_level).collect();
    if lines.is_empty() {
        return lines;
    }
    let is_now = if answer["store"]["is_away"] == true { ", which is now" } else { "" };
    [vec![format!("while the store is away{is_now}, at this router:")], lines].concat()
}

fn of_level(level: &Value) -> Option<String> {
    let (name, local) = (level_name(level), level["local"].as_object()?);
    let number = |name: &str| local.get(name).filter(|value| !value.is_null()).map(word);
    let routers = number("routers").unwrap_or_default();
    let what = match local.get("on_store_failure").and_then(Value::as_str) {
        Some("open") => "everything passes (open)".to_owned(),
        Some("closed") => "everything is refused (closed)".to_owned(),
        _ => {
            let rate = number("sustained")
                .map(|rate| format!("{rate}, burst {}", number("burst").unwrap_or_default()));
            let most = number("max_in_flight").map(|most| format!("{most} in flight"));
            let parts: Vec<_> = rate.into_iter().chain(most).collect();
            if parts.is_empty() {
                return None;
            }
            format!("its share, one of {routers} routers: {}", parts.join(", "))
        }
    };
    let has_quotas = level["quotas"].as_array().is_some_and(|quotas| !quotas.is_empty());
    let quotas = if has_quotas { "; quotas are not counted" } else { "" };
    Some(format!("  level {name}: {what}{quotas}"))
}
