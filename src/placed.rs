//! `cofferdam pin`, `unpin`, `quarantine` and `release`: a tenant's cells, changed for a while while routers run. A router decides
//! what may be; here its admin listener is asked, and its answer shown.

use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::asked::{self, OfTenant, list, word};

/// Give a tenant other cells for a while, at every router
#[derive(Debug, clap::Args)]
pub(crate) struct Pin {
    #[command(flatten)]
    of: OfTenant,

    /// The cells, home first: active or dedicated ones, as many as the tenant has else
    #[arg(long, required = true, value_delimiter = ',')]
    to: Vec<String>,

    #[command(flatten)]
    said: Said,
}

/// End a pin before its time
#[derive(Debug, clap::Args)]
pub(crate) struct Unpin {
    #[command(flatten)]
    of: OfTenant,

    #[command(flatten)]
    who: Who,
}

/// Keep a tenant apart from all others for a while, on quarantine cells, at every router
#[derive(Debug, clap::Args)]
pub(crate) struct Quarantine {
    #[command(flatten)]
    of: OfTenant,

    /// The cells, home first; default: the first quarantine cells of the fleet, as many as the tenant has cells else
    #[arg(long, value_delimiter = ',')]
    to: Vec<String>,

    #[command(flatten)]
    said: Said,
}

/// End a quarantine before its time
#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    of: OfTenant,

    #[command(flatten)]
    who: Who,
}

/// For how long, and why.
#[derive(Debug, clap::Args)]
struct Said {
    /// For how long, such as 1d: at most 30d
    #[arg(long = "for")]
    lasting: String,

    /// Why, for whoever finds the tenant elsewhere
    #[arg(long)]
    reason: String,

    /// Who changes it; default: the user who runs this
    #[arg(long)]
    author: Option<String>,
}

/// Who ends it, and why.
#[derive(Debug, clap::Args)]
struct Who {
    /// Why, for the log
    #[arg(long)]
    reason: String,

    /// Who ends it; default: the user who runs this
    #[arg(long)]
    author: Option<String>,
}

pub(crate) fn pin(args: &Pin) -> anyhow::Result<ExitCode> {
    let change = args.said.body(&args.to);
    args.of.ask("/pin", |client, url| client.put(url).json(&change), shown)
}

pub(crate) fn unpin(args: &Unpin) -> anyhow::Result<ExitCode> {
    let change = args.who.body();
    args.of.ask("/pin", |client, url| client.delete(url).json(&change), shown)
}

pub(crate) fn quarantine(args: &Quarantine) -> anyhow::Result<ExitCode> {
    let change = args.said.body(&args.to);
    args.of.ask("/quarantine", |client, url| client.put(url).json(&change), shown)
}

pub(crate) fn release(args: &Release) -> anyhow::Result<ExitCode> {
    let change = args.who.body();
    args.of.ask("/quarantine", |client, url| client.delete(url).json(&change), shown)
}

impl Said {
    fn body(&self, to: &[String]) -> Map<String, Value> {
        let mut body = asked::body(&[
            ("for", Some(&self.lasting)),
            ("reason", Some(&self.reason)),
            ("author", Some(&asked::author(self.author.clone()))),
        ]);
        body.insert("to".to_owned(), to.into());
        body
    }
}

impl Who {
    fn body(&self) -> Map<String, Value> {
        let author = asked::author(self.author.clone());
        asked::body(&[("reason", Some(&self.reason)), ("author", Some(&author))])
    }
}

/// Where the tenant is now, for people.
fn shown(answer: &Value) -> String {
    let place = format!(
        "tenant {} is on {} (reason: {})",
        word(&answer["tenant"]),
        list(&answer["shard"]),
        word(&answer["reason"])
    );
    let lines = [place].into_iter().chain(said(answer)).chain(scope(answer));
    lines.collect::<Vec<_>>().join("\n")
}

/// What operators have said of the tenant's cells while routers run, line by line.
pub(crate) fn said(answer: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for of in ["quarantine", "pin"] {
        let said = &answer["override"][of];
        if said.is_object() {
            let by = word(&said["author"]);
            lines.push(format!(
                "{of} to {} by {by} until {} ({}): {}",
                list(&said["to"]),
                word(&said["until"]),
                standing(said),
                word(&said["reason"])
            ));
        }
    }
    lines
}

/// Whether what an operator has said binds, and why it does not, or has the tenant elsewhere.
pub(crate) fn standing(said: &Value) -> String {
    match (said["binds"] == true, said["why"].as_str()) {
        (true, None) => "binds".to_owned(),
        (true, Some(why)) => format!("binds elsewhere: {why}"),
        (false, why) => format!("does not bind: {}", why.unwrap_or("the router does not say why")),
    }
}

/// Where what operators say does not hold everywhere.
pub(crate) fn scope(answer: &Value) -> Option<String> {
    (answer["overrides_are"] == "local").then(|| "in this router alone, since it has no store".to_owned())
}
