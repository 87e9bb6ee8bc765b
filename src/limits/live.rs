//! `cofferdam limits show`, `set` and `clear`: a tenant's limits as a running router has them. The router decides what may be
//! set; here its admin listener is asked, and its answer shown.

use std::process::ExitCode;

use serde_json::Value;

use crate::asked::{self, OfTenant, word};

/// Show a tenant's limits, where they come from, and what is in use
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    of: OfTenant,
}

/// Change a tenant's limits for a while; what is not named stays as its plan has it
#[derive(Debug, clap::Args)]
pub(super) struct Set {
    #[command(flatten)]
    of: OfTenant,

    /// How fast, such as 50/s
    #[arg(long)]
    sustained: Option<String>,

    /// How much at once
    #[arg(long)]
    burst: Option<String>,

    /// How many at once
    #[arg(long)]
    max_in_flight: Option<String>,

    /// For how long, such as 1h: at most 30d
    #[arg(long = "for")]
    lasting: String,

    /// Why, for whoever asks later
    #[arg(long)]
    reason: Option<String>,

    /// Who changes it; default: the user who runs this
    #[arg(long)]
    author: Option<String>,
}

/// End a change before its time: the plan's limits bind again
#[derive(Debug, clap::Args)]
pub(super) struct Clear {
    #[command(flatten)]
    of: OfTenant,
}

pub(super) fn show(args: &Show) -> anyhow::Result<ExitCode> {
    args.of.ask("/limits", |client, url| client.get(url), shown)
}

pub(super) fn set(args: &Set) -> anyhow::Result<ExitCode> {
    let change = asked::body(&[
        ("for", Some(&args.lasting)),
        ("sustained", args.sustained.as_ref()),
        ("burst", args.burst.as_ref()),
        ("max_in_flight", args.max_in_flight.as_ref()),
        ("reason", args.reason.as_ref()),
        ("author", asked::author(args.author.clone()).as_ref()),
    ]);
    args.of.ask("/limits", |client, url| client.put(url).json(&change), shown)
}

pub(super) fn clear(args: &Clear) -> anyhow::Result<ExitCode> {
    args.of.ask("/limits", |client, url| client.delete(url), shown)
}

/// The answer, for people.
fn shown(answer: &Value) -> String {
    let mut lines = vec![format!("tenant {}, plan {}", word(&answer["tenant"]), word(&answer["plan"]))];
    lines.extend(of_override(answer));
    let mut table = comfy_table::Table::new();
    let header = ["level", "sustained", "burst", "remaining", "max in flight", "in flight", "from"];
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for level in answer["levels"].as_array().into_iter().flatten() {
        let name = match level["route"].as_str() {
            Some(route) => format!("route {route}"),
            None => word(&level["level"]),
        };
        let numbers = ["sustained", "burst", "remaining", "max_in_flight", "in_flight"];
        let mut row = vec![name];
        row.extend(numbers.map(|number| word(&level[number])));
        row.push(sources(level));
        table.add_row(row);
    }
    lines.push(table.to_string());
    for quota in answer["levels"][1]["quotas"].as_array().into_iter().flatten() {
        let [used, tokens, window_s] = ["used", "tokens", "window_s"].map(|name| word(&quota[name]));
        lines.push(format!("quota: {used} of {tokens} used in {window_s} s"));
    }
    lines.push(of_store(answer));
    lines.join("\n")
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

fn of_store(answer: &Value) -> String {
    let store = &answer["store"];
    if store["kind"] == "embedded" {
        return "store: none, this router limits by itself".to_owned();
    }
    let how = if store["is_away"] == true { "away" } else { "answers" };
    let [permits, tokens] = ["permits", "tokens"].map(|name| word(&answer["on_loan"][name]));
    let sessions = word(&store["sessions"]);
    format!("store: {how}; {sessions} routers share it; on loan here: {permits} permits, {tokens} tokens")
}
