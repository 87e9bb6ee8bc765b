//! An explanation for people: first what is wrong and what to do, then where the tenant is, then the figures.

use std::time::Duration;

use cofferdam_router::TenantRecent;
use serde_json::Value;

use super::explanation::{Explanation, Routers, Seen};
use super::finding::Finding;
use crate::asked::word;
use crate::limits::lines;
use crate::placed::{said, scope};
use crate::{moved, rollout};

/// The text.
pub(super) fn text(explanation: &Explanation, findings: &[Finding]) -> String {
    let Explanation { seen, recent, routers, .. } = explanation;
    let Seen { placement, limits, fleet, release, .. } = seen;
    let is_live = recent.is_some();
    let mut lines_of: Vec<String> = findings.iter().flat_map(told).collect();
    if !findings.is_empty() {
        lines_of.push(String::new());
    }
    lines_of.push(where_it_is(placement));
    let said = said(placement);
    lines_of.extend(scope(placement).filter(|_| !said.is_empty()).into_iter().chain(said));
    lines_of.extend(moved::under_way(&placement["override"]["move"]).map(|phase| format!("it {phase}")));
    lines_of.extend(draining(placement));
    if placement["waits_for_release"] == true {
        let line = "its slot has other cells in this file, and keeps those before until it is released";
        lines_of.push(format!("{line}: {}", rollout::shown(release)));
    }
    lines_of.extend([whose_word(placement, fleet), String::new()]);
    if findings.is_empty()
        && let Some(recent) = recent
    {
        lines_of.push(nothing_is_wrong(recent, routers.as_ref()));
    }
    lines_of.extend(routers.as_ref().and_then(unasked));
    if !is_live {
        lines_of.push(
            "  By the file alone. How its cells are, and what is in use, a router knows: --admin.".to_owned(),
        );
    }
    lines_of.push(String::new());
    lines_of.push(cells(placement).to_string());
    if is_live {
        let [in_flight, retries] = ["in_flight", "retries_left"].map(|name| word(&placement[name]));
        lines_of.push(format!(
            "\nat this router: {in_flight} requests in flight, {retries} retries left{}",
            lately(placement)
        ));
    }
    if !limits.is_null() {
        lines_of.push(format!("\nplan {}", word(&limits["plan"])));
        lines_of.extend(lines(limits));
    }
    lines_of.join("\n")
}

/// A finding, and what to do about it.
fn told(finding: &Finding) -> Vec<String> {
    let mark = if finding.is_fault { "!" } else { "-" };
    let mut lines = vec![format!("  {mark} {}", finding.what)];
    lines.extend((!finding.todo.is_empty()).then(|| format!("      {}", finding.todo)));
    lines
}

fn nothing_is_wrong(recent: &TenantRecent, routers: Option<&Routers>) -> String {
    let within = recent.covers_ms.div_ceil(1000);
    let requests = match recent.requests {
        0 => "it sent nothing lately".to_owned(),
        n => format!("none of its {n} requests of the last {within} s was refused or failed"),
    };
    let all_well = "its cells are up and have room, no limit of it is used up";
    match routers.map_or(0, Routers::n_unasked) {
        0 => format!("  Nothing is wrong: {all_well}, and {requests}."),
        _ => format!("  At the routers that were asked nothing is wrong: {all_well}, and {requests}."),
    }
}

/// What was not asked may know better.
fn unasked(routers: &Routers) -> Option<String> {
    let (n, live) = (routers.n_unasked(), routers.live?);
    (n > 0).then(|| {
        format!(
            "  {} of {live} live routers were asked: what the other {n} saw is not known. Name them as well: --admin URL --admin URL",
            routers.asked
        )
    })
}

fn where_it_is(placement: &Value) -> String {
    let cells = placement["shard"].as_array().into_iter().flatten().enumerate();
    let cells: Vec<_> =
        cells.map(|(at, cell)| if at == 0 { format!("{} (home)", word(cell)) } else { word(cell) }).collect();
    let why = match placement["reason"].as_str() {
        Some("slot") => format!("by its slot, {}", word(&placement["slot"])),
        reason => {
            let reason = reason.unwrap_or_default();
            let by_operator = placement["override"][reason]["binds"] == true;
            let whose = if by_operator { "an operator's" } else { "the fleet file's" };
            format!("by {whose} {reason} (its slot is {})", word(&placement["slot"]))
        }
    };
    format!("tenant {} is on {}: {why}", word(&placement["tenant"]), cells.join(", "))
}

/// Cells that it leaves: their requests are no mistake.
fn draining(placement: &Value) -> impl Iterator<Item = String> {
    placement["draining"].as_array().into_iter().flatten().map(|cell| {
        let [id, until] = ["id", "until"].map(|name| word(&cell[name]));
        format!("{id} was one of its cells and drains until {until}: what is in flight there or marked with it still goes there")
    })
}

fn whose_word(placement: &Value, fleet: &Value) -> String {
    let zones = if fleet["zone_separated"] == true { "cells in different zones" } else { "one zone only" };
    let forced = match fleet["forced"]["reason"].as_str() {
        Some(reason) => format!("; taken by force: {reason}"),
        None => String::new(),
    };
    let [revision, digest] = ["revision", "digest"].map(|name| word(&placement[name]));
    format!("fleet {} at revision {revision}, digest {digest}; {zones}{forced}", word(&fleet["fleet"]))
}

/// What it sent, where it is among the tenants that are counted one by one.
fn lately(placement: &Value) -> String {
    let lately = &placement["lately"];
    let (sent, refused) = (lately["requests"].as_u64(), lately["refused"].as_u64());
    if sent.or(refused).is_none() {
        return String::new();
    }
    let window = lately["window_ms"].as_u64().map_or_else(String::new, |ms| seconds(ms / 1000 * 1000));
    let [sent, refused] = [sent, refused].map(Option::unwrap_or_default);
    format!("; in the last {window} {sent} admitted, {refused} refused")
}

fn cells(placement: &Value) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    let header = ["cell", "order", "zone", "state", "health", "saturation", "avoided", "in flight", "report"];
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for (at, cell) in placement["cells"].as_array().into_iter().flatten().enumerate() {
        let health = match cell["up"].as_bool() {
            Some(true) => "up",
            Some(false) => "DOWN",
            None => "-",
        };
        let report = &cell["report"];
        let ms = |name: &str| report[name].as_u64().map_or_else(|| "-".to_owned(), seconds);
        let age = match report["age_ms"].as_u64() {
            Some(age) => format!("{} ago", seconds(age)),
            None => "none".to_owned(),
        };
        table.add_row([
            word(&cell["id"]),
            order(at),
            word(&cell["zone"]),
            word(&cell["state"]),
            health.to_owned(),
            word(&report["saturation"]),
            ms("avoided_for_ms"),
            word(&cell["in_flight"]),
            age,
        ]);
    }
    table
}

/// What a cell is to a tenant by its place in the shard.
pub(super) fn order(at: usize) -> String {
    match at {
        0 => "home".to_owned(),
        1 => "2nd".to_owned(),
        2 => "3rd".to_owned(),
        at => format!("{}th", at + 1),
    }
}

/// A time out of milliseconds, to a tenth of a second.
pub(super) fn seconds(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms / 100 * 100)).to_string()
}

#[cfg(test)]
mod tests {
    use cofferdam_router::RecentAnswer;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tenant_that_waits_for_its_release_is_told_so_and_how_far_that_is() {
        let text = |waits: bool| {
            let release =
                json!({ "revision": 7, "n_loose": 5, "n_slots": 20, "per_minute": 9, "ends_in_s": 90 });
            let placement = json!({ "tenant": "t", "shard": ["a", "b"], "reason": "slot", "slot": 7, "waits_for_release": waits });
            let (limits, fleet) = (Value::Null, json!({ "fleet": "f" }));
            let seen = Seen { placement, limits, fleet, release, recent: Some(RecentAnswer::default()) };
            text(&Explanation::of(seen, Vec::new(), Vec::new()), &[])
        };
        let line = "keeps those before until it is released: revision 7: 5 of 20 slots are released (25.0 %); 9 a minute";
        assert!(text(true).contains(line) && !text(false).contains(line), "{}", text(true));
        assert!(text(true).starts_with("tenant t is on a (home), b: by its slot, 7\n"));
    }
}
