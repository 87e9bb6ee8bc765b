//! What a router answers about a tenant's limits, for people.

use serde_json::Value;

use super::in_cells::{in_cells, level_name, without_store};
use crate::asked::word;

/// Where limits come from and what is in use, line by line: an override, the levels, quotas, the store.
pub(crate) fn lines(answer: &Value) -> Vec<String> {
    let mut lines: Vec<String> = of_override(answer).into_iter().collect();
    let mut table = comfy_table::Table::new();
    let header = ["level", "sustained", "burst", "remaining", "max in flight", "in flight", "from"];
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for level in answer["levels"].as_array().into_iter().flatten() {
        let numbers = ["sustained", "burst", "remaining", "max_in_flight", "in_flight"];
        let mut row = vec![level_name(level)];
        row.extend(numbers.map(|number| word(&level[number])));
        row.push(sources(level));
        table.add_row(row);
    }
    lines.push(table.to_string());
    for quota in answer["levels"][1]["quotas"].as_array().into_iter().flatten() {
        let [used, tokens, window_s] = ["used", "tokens", "window_s"].map(|name| word(&quota[name]));
        // By a file alone nobody knows what is used.
        let used = if quota["used"].is_null() { String::new() } else { format!("{used} used of ") };
        lines.push(format!("quota: {used}{tokens} in {window_s} s"));
    }
    lines.extend(in_cells(answer));
    lines.extend(of_store(answer));
    lines.extend(without_store(answer));
    lines
}

fn of_override(answer: &Value) -> Option<String> {
    let said = answer["override"].as_object()?;
    let by = said["author"].as_str().map_or_else(|| "somebody".to_owned(), str::to_owned);
    let why = said["reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
    let scope = match answer["overrides_are"].as_str() {
        Some("local") => "in this router alone, since it has no store",
        _ => "in every router of the fleet",
    };
    Some(format!("overridden by {by} until {}, {scope}{why}", word(&said["until"])))
}

/// One source, or which of the limits have another.
fn sources(level: &Value) -> String {
    let Some(sources) = level["source"].as_object() else {
        let shadow = if level["shadow"] == true { ", only counted" } else { "" };
        return format!("{}{shadow}", word(&level["source"]));
    };
    let changed: Vec<_> =
        sources.iter().filter(|(_, source)| *source == "override").map(|(name, _)| name.as_str()).collect();
    let source = match changed.is_empty() {
        true => "plan".to_owned(),
        false => format!("plan; override: {}", changed.join(", ")),
    };
    if level["shadow"] == true { format!("{source}, only counted") } else { source }
}

/// Nothing where no router was asked.
fn of_store(answer: &Value) -> Option<String> {
    let store = answer.get("store")?;
    if store["kind"] == "embedded" {
        return Some("store: none, this router limits by itself".to_owned());
    }
    let how = if store["is_away"] == true { "away" } else { "answers" };
    let [permits, tokens] = ["permits", "tokens"].map(|name| word(&answer["on_loan"][name]));
    let sessions = word(&store["sessions"]);
    Some(format!(
        "store: {how}; {sessions} routers share it; on loan here: {permits} permits, {tokens} tokens"
    ))
}
