//! What is wrong with a tenant, out of what is known of it: cells that are down or full, what keeps it to one of them or from
//! where an operator wants it, limits that are used up. It asks nobody.

use serde_json::Value;

use super::explanation::Explanation;
use super::shown::{order, seconds};
use crate::asked::{list, word};
use crate::limits::level_name;
use crate::placed::standing;

/// What is wrong, what touches every request first.
pub(super) fn findings(explanation: &Explanation) -> Vec<String> {
    let Explanation { placement, limits, fleet, .. } = explanation;
    let mut found = Vec::new();
    if placement["plan"].is_null() {
        found.push(
            "it has no plan, and the fleet file has none for unknown tenants: it is refused".to_owned(),
        );
    }
    found.extend(["quarantine", "pin"].into_iter().filter_map(|of| of_word(of, &placement["override"][of])));
    found.extend(of_all_cells(placement));
    let cells = placement["cells"].as_array().map_or(&[][..], Vec::as_slice);
    found.extend(cells.iter().enumerate().flat_map(|(at, cell)| of_cell(at, cell)));
    found.extend(of_tenant(placement));
    found.extend(of_zones(cells, fleet));
    found.extend(limits["levels"].as_array().into_iter().flatten().flat_map(of_level));
    if limits["store"]["is_away"] == true {
        found.push("the store of limits is away: this router goes on by itself".to_owned());
    }
    if let Some(error) = fleet["last_reload_error"].as_str() {
        found.push(format!("the last fleet file was not taken: {error}"));
    }
    found
}

/// What an operator has said, where the tenant is not where that says.
fn of_word(of: &str, said: &Value) -> Option<String> {
    let is_so = said["binds"] == true && said["why"].is_null();
    (said.is_object() && !is_so)
        .then(|| format!("the operator's {of} to {} {}", list(&said["to"]), standing(said)))
}

fn is_down(cell: &Value) -> bool {
    cell["up"] == false
}

fn avoided(cell: &Value) -> Option<String> {
    cell["report"]["avoided_for_ms"].as_u64().map(seconds)
}

fn of_all_cells(placement: &Value) -> Option<String> {
    let cells = placement["cells"].as_array()?;
    if cells.iter().all(is_down) {
        return Some(
            "all its cells are down: they are tried, and no other cell is; else it is answered 503"
                .to_owned(),
        );
    }
    let none_has_room = cells.iter().all(|cell| is_down(cell) || avoided(cell).is_some());
    none_has_room
        .then(|| "none of its cells has room: classes are shed, the lowest priority first".to_owned())
}

fn of_cell(at: usize, cell: &Value) -> Vec<String> {
    let name = format!("{} ({})", word(&cell["id"]), order(at));
    let mut found = Vec::new();
    if is_down(cell) {
        found.push(format!("{name} is down"));
    }
    let report = &cell["report"];
    if let Some(avoided) = avoided(cell) {
        found.push(format!(
            "{name} is full: saturation {}, avoided for {avoided}",
            word(&report["saturation"])
        ));
    }
    let classes = report["classes_avoided_for_ms"].as_object().into_iter().flatten();
    found.extend(classes.filter_map(|(class, ms)| {
        Some(format!(
            "{name} has no room for class {class}, which has avoided it for {}",
            seconds(ms.as_u64()?)
        ))
    }));
    found
}

fn of_tenant(placement: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if placement["confined"] == true {
        found.push(
            "it had requests on two cells when those were lost: it is kept to its home cell for a minute (/losses)".to_owned(),
        );
    }
    if placement["retries_left"] == 0 {
        found.push("its retries are used up: what fails on one cell is not tried on another".to_owned());
    }
    found
}

/// Cells that one zone's loss takes together, where the fleet has others.
fn of_zones(cells: &[Value], fleet: &Value) -> Option<String> {
    if fleet["zone_separated"] != true {
        return None;
    }
    let together = |(at, cell): (usize, &Value)| {
        cells[..at]
            .iter()
            .find(|other| other["zone"] == cell["zone"])
            .map(|other| (other["id"].clone(), cell["id"].clone(), cell["zone"].clone()))
    };
    let (one, other, zone) = cells.iter().enumerate().find_map(together)?;
    Some(format!("{} and {} are both in zone {}", word(&one), word(&other), word(&zone)))
}

fn of_level(level: &Value) -> Vec<String> {
    let name = level_name(level);
    let only_counted = if level["shadow"] == true { ", which is only counted" } else { "" };
    let mut found = Vec::new();
    if level["remaining"] == 0 {
        let (sustained, burst) = (word(&level["sustained"]), word(&level["burst"]));
        found.push(format!("the rate of level {name} is used up ({sustained}, burst {burst}){only_counted}"));
    }
    if let (Some(in_flight), Some(most)) = (level["in_flight"].as_u64(), level["max_in_flight"].as_u64())
        && in_flight >= most
    {
        found.push(format!("level {name} has {in_flight} requests in flight of {most}{only_counted}"));
    }
    for quota in level["quotas"].as_array().into_iter().flatten() {
        if let (Some(used), Some(tokens)) = (quota["used"].as_u64(), quota["tokens"].as_u64())
            && used >= tokens
        {
            let window = quota["window_s"].as_u64().map_or_else(String::new, |s| seconds(s * 1000));
            found.push(format!("the quota of {tokens} in {window} is used up{only_counted}"));
        }
    }
    found
}
