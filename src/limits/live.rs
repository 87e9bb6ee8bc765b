//! `cofferdam limits show`, `set` and `clear`: a tenant's limits as a running router has them. The router decides what may be
//! set; here its admin listener is asked, and its answer shown.

use std::process::ExitCode;

use serde_json::Value;

use super::shown::lines;
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
        ("author", Some(&asked::author(args.author.clone()))),
    ]);
    args.of.ask("/limits", |client, url| client.put(url).json(&change), shown)
}

pub(super) fn clear(args: &Clear) -> anyhow::Result<ExitCode> {
    args.of.ask("/limits", |client, url| client.delete(url), shown)
}

/// The answer, for people.
fn shown(answer: &Value) -> String {
    let head = format!("tenant {}, plan {}", word(&answer["tenant"]), word(&answer["plan"]));
    [vec![head], lines(answer)].concat().join("\n")
}
