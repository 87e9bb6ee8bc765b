//! What is wrong with a tenant, out of what is known of it: cells that are down or full, what keeps it to one of them or from
//! where an operator wants it, limits that are used up, and what the last minute says. It asks nobody.

use cofferdam_router::TenantRecent;
use serde_json::Value;

use super::explanation::{Explanation, Seen};
use super::finding::{Finding, rank, sorted};
use super::lately;
use super::shown::{order, seconds};
use super::states;
use crate::asked::word;
use crate::limits::level_name;

/// What is wrong or worth knowing, worst first.
pub(super) fn findings(explanation: &Explanation) -> Vec<Finding> {
    let recent = explanation.recent.as_ref();
    let mut found = Vec::new();
    for seen in explanation.all() {
        found.extend(of_no_plan(&seen.placement));
        found.extend(of_all_cells(&seen.placement));
        found.extend(cells_of(seen).iter().enumerate().flat_map(|(at, cell)| of_cell(at, cell)));
        found.extend(of_tenant(&seen.placement, recent));
        found.extend(of_zones(cells_of(seen), &seen.fleet));
        let levels = seen.limits["levels"].as_array().into_iter().flatten();
        found.extend(levels.flat_map(|level| of_level(level, recent)));
        found.extend(of_store(seen, recent));
        found.extend(states::findings(seen));
        if let Some(error) = seen.fleet["last_reload_error"].as_str() {
            let todo = "mend the file, and check it: cofferdam check";
            found.push(Finding::fault(
                rank::FILE,
                format!("the last fleet file was not taken: {error}"),
                todo,
            ));
        }
    }
    if let Some(recent) = recent {
        found.extend(lately::findings(&explanation.seen, recent));
    }
    for at in explanation.routers.iter().flat_map(|routers| &routers.silent) {
        let what = format!("the router at {at} did not answer: what it saw is not known");
        found.push(Finding::fault(rank::STORE, what, "see whether it runs, and whether that is its --admin"));
    }
    sorted(found)
}

fn cells_of(seen: &Seen) -> &[Value] {
    seen.placement["cells"].as_array().map_or(&[], Vec::as_slice)
}

fn of_no_plan(placement: &Value) -> Option<Finding> {
    let what = "it has no plan, and the fleet file has none for unknown tenants: it is refused";
    let todo = "give it a plan in tenant.plan_of, or one to all others in tenant.unknown";
    placement["plan"].is_null().then(|| Finding::fault(rank::REFUSED, what, todo))
}

fn is_down(cell: &Value) -> bool {
    cell["up"] == false
}

fn avoided(cell: &Value) -> Option<String> {
    cell["report"]["avoided_for_ms"].as_u64().map(seconds)
}

fn of_all_cells(placement: &Value) -> Option<Finding> {
    let cells = placement["cells"].as_array()?;
    if cells.iter().all(is_down) {
        let what = "all its cells are down: they are tried, and no other cell is; else it is answered 503";
        return Some(Finding::fault(
            rank::ALL_DOWN,
            what,
            "bring one of its cells back, or move the tenant: cofferdam move",
        ));
    }
    let none_has_room = cells.iter().all(|cell| is_down(cell) || avoided(cell).is_some());
    let what = "none of its cells has room: classes are shed, the lowest priority first";
    let todo = "see who fills them: cofferdam limits top; cofferdam advise tells what they need";
    none_has_room.then(|| Finding::fault(rank::ALL_DOWN, what, todo))
}

fn of_cell(at: usize, cell: &Value) -> Vec<Finding> {
    let name = format!("{} ({})", word(&cell["id"]), order(at));
    let mut found = Vec::new();
    let fault = |what: String, todo: &str| Finding::fault(rank::CELL, what, todo);
    if is_down(cell) {
        let todo = "see whether its agent and its backend run; the router's log says since when";
        found.push(fault(format!("{name} is down"), todo));
    }
    let report = &cell["report"];
    let todo = "see who fills it: cofferdam limits top; cofferdam advise tells what it needs";
    if let Some(avoided) = avoided(cell) {
        let saturation = word(&report["saturation"]);
        found.push(fault(format!("{name} is full: saturation {saturation}, avoided for {avoided}"), todo));
    }
    let classes = report["classes_avoided_for_ms"].as_object().into_iter().flatten();
    found.extend(classes.filter_map(|(class, ms)| {
        let ms = seconds(ms.as_u64()?);
        Some(fault(format!("{name} has no room for class {class}, which has avoided it for {ms}"), todo))
    }));
    for of in cell["open_breakers"].as_array().into_iter().flatten().map(word) {
        let what = format!("the breaker of {of} is open on {name}: it failed too often");
        let todo = format!("see why {of} fails; the breaker closes by itself once it is well");
        found.push(Finding::fault(rank::BREAKER - 1, what, todo));
    }
    found
}

fn of_tenant(placement: &Value, recent: Option<&TenantRecent>) -> Vec<Finding> {
    let mut found = Vec::new();
    if placement["confined"] == true {
        let lost = |recent: &TenantRecent| -> u64 {
            recent.rows.iter().filter(|row| row.reason == "cell_lost").map(|row| row.count).sum()
        };
        let lost = match recent.map(lost) {
            None | Some(0) => String::new(),
            Some(lost) => format!("; {lost} of its requests ended so"),
        };
        found.push(Finding::fault(
            rank::CONFINED,
            format!("it had requests on two cells when those were lost: it is kept to its home cell for a minute (/losses){lost}"),
            "find what of its requests ends a cell; keep it apart meanwhile: cofferdam quarantine",
        ));
    }
    if placement["retries_left"] == 0 {
        let what = "its retries are used up: what fails on one cell is not tried on another";
        found.push(Finding::fault(
            rank::TENANT,
            what,
            "see why its requests fail; the budget fills by itself",
        ));
    }
    found
}

/// Cells that one zone's loss takes together, where the fleet has others.
fn of_zones(cells: &[Value], fleet: &Value) -> Option<Finding> {
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
    let what = format!("{} and {} are both in zone {}", word(&one), word(&other), word(&zone));
    Some(Finding::note(rank::ZONES, what, "give it cells of two zones"))
}

/// Limits that are used up, unless something was refused by them: that is told with its count.
fn of_level(level: &Value, recent: Option<&TenantRecent>) -> Vec<Finding> {
    let name = level_name(level);
    let kind = word(&level["level"]);
    let is_told = |reason: &str| lately::refused_by(recent, &kind, reason);
    let only_counted = if level["shadow"] == true { ", which is only counted" } else { "" };
    let mut found = Vec::new();
    let note = |what: String| {
        Finding::note(rank::USED_UP, what, "what comes now is refused: send less, or raise it")
    };
    if level["remaining"] == 0 && !is_told("rate") {
        let (sustained, burst) = (word(&level["sustained"]), word(&level["burst"]));
        found.push(note(format!(
            "the rate of level {name} is used up ({sustained}, burst {burst}){only_counted}"
        )));
    }
    if let (Some(in_flight), Some(most)) = (level["in_flight"].as_u64(), level["max_in_flight"].as_u64())
        && in_flight >= most
        && !is_told("concurrency")
    {
        found.push(note(format!("level {name} has {in_flight} requests in flight of {most}{only_counted}")));
    }
    for quota in level["quotas"].as_array().into_iter().flatten() {
        if let (Some(used), Some(tokens)) = (quota["used"].as_u64(), quota["tokens"].as_u64())
            && used >= tokens
            && !is_told("quota")
        {
            let window = quota["window_s"].as_u64().map_or_else(String::new, |s| seconds(s * 1000));
            found.push(note(format!("the quota of {tokens} in {window} is used up{only_counted}")));
        }
    }
    found
}

/// How exact limits are.
fn of_store(seen: &Seen, recent: Option<&TenantRecent>) -> Option<Finding> {
    let rank = if lately::refused_by_limits(recent) { rank::LOCAL_SHARE } else { rank::STORE };
    let store = &seen.limits["store"];
    let local = &seen.limits["levels"][1]["local"];
    if store["is_away"] == true {
        let share = match local["routers"].as_u64() {
            Some(routers) if local["on_store_failure"] == "local" => format!(
                ", with its share of each limit: one of {routers}, {} in flight and {} of this tenant",
                word(&local["max_in_flight"]),
                word(&local["sustained"])
            ),
            _ => format!(", as on_store_failure says: {}", word(&local["on_store_failure"])),
        };
        let what = format!("the store of limits is away: this router goes on by itself{share}");
        let todo = "bring the store back; the router's log says what it answers";
        return Some(Finding::fault(rank, what, todo));
    }
    let is_new = seen.recent.as_ref().is_some_and(|recent| recent.is_store_new);
    let what = "the store of limits has just begun to remember, and lends nothing yet: each router goes by its own share for some seconds";
    is_new.then(|| {
        Finding::fault(
            rank,
            what,
            "wait some seconds; if that comes often, see why the store restarts or forgets",
        )
    })
}
