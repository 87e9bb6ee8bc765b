//! `cofferdam explain`: what is wrong with a tenant and what to do, where it is and why, and what binds it. Running routers know
//! all of it; a fleet file knows what does not change by itself.

mod causes;
mod explanation;
mod file;
mod finding;
mod findings;
mod lately;
mod shown;
mod states;

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::FleetError;
use cofferdam_router::RecentAnswer;
use reqwest::Client;

use explanation::{Explanation, Seen};

use crate::asked::{self, OfTenant};
use crate::process::BAD_INPUT;

/// Explain a tenant: what is wrong with it and what to do, where it is and why, and what binds it
///
/// It looks at the last minute of the tenant's requests at each router that is named: refusals, failures, slow answers and what
/// waits, by reason, class and cell; at the health of its cells; and at its limits. The first line is the worst of what it finds.
///
/// It exits with 1 where something is wrong (lines with `!`), and with 0 where nothing is, or where there is only something to
/// know (lines with `-`), such as an operator's pin or a rollout that the tenant waits for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tenant
    tenant: String,

    /// A router's admin listener; may be given for each router of the fleet, since each knows its own requests alone
    #[arg(long, default_value = "http://127.0.0.1:7001")]
    admin: Vec<String>,

    /// Print everything that is known as JSON, for programs
    #[arg(long)]
    json: bool,

    /// Explain by this fleet file, and ask no router
    #[arg(long, conflicts_with = "admin")]
    fleet: Option<PathBuf>,
}

#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut explanation = match &args.fleet {
        Some(path) => match file::explain(path, &args.tenant) {
            Err(error) if !error.is::<FleetError>() => {
                eprintln!("cofferdam: {error:#}");
                return Ok(ExitCode::from(BAD_INPUT));
            }
            explained => explained?,
        },
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            match runtime.block_on(ask_all(&args))? {
                Ok(explanation) => explanation,
                Err(code) => return Ok(code),
            }
        }
    };
    let findings = findings::findings(&explanation);
    explanation.is_wrong = findings.iter().any(|finding| finding.is_fault);
    if args.json {
        explanation.findings = findings.iter().map(|finding| finding.what.clone()).collect();
        explanation.todo = findings.iter().map(|finding| finding.todo.clone()).collect();
        println!("{}", serde_json::to_string(&explanation)?);
    } else {
        println!("{}", shown::text(&explanation, &findings));
    }
    Ok(if explanation.is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Asks all routers that are named. One that does not answer is told, as long as another one does.
async fn ask_all(args: &Args) -> anyhow::Result<Result<Explanation, ExitCode>> {
    let client = asked::client()?;
    let (mut seen, mut silent, mut failed) = (Vec::new(), Vec::new(), None);
    for admin in &args.admin {
        match ask(&client, &OfTenant::at(&args.tenant, admin)).await {
            Ok(Ok(answers)) => seen.push(answers),
            Ok(Err(code)) => return Ok(Err(code)),
            Err(error) => {
                silent.push(admin.clone());
                failed.get_or_insert(error);
            }
        }
    }
    match (seen.is_empty(), failed) {
        (true, Some(error)) => Err(error),
        (true, None) => Ok(Err(ExitCode::from(BAD_INPUT))),
        (false, _) => {
            let first = seen.remove(0);
            Ok(Ok(Explanation::of(first, seen, silent)))
        }
    }
}

/// Asks a router for everything that it knows.
async fn ask(client: &Client, of: &OfTenant) -> anyhow::Result<Result<Seen, ExitCode>> {
    let of_tenant = async |what: &str| of.answer(client, what, |client, url| client.get(url)).await;
    let placement = match of_tenant("").await? {
        Ok(text) => asked::json(&text)?,
        Err(code) => return Ok(Err(code)),
    };
    // Who has no plan has no limits either.
    let limits = match placement["plan"].is_null() {
        true => Ok("null".to_owned()),
        false => of_tenant("/limits").await?,
    };
    let of_fleet = async |path: &str| of.at.answer(client, path, |client, url| client.get(url)).await;
    let release = match placement["waits_for_release"] == true {
        true => of_fleet("/placement/release").await?,
        false => Ok("null".to_owned()),
    };
    let recent = of_tenant("/recent").await?;
    let [limits, fleet, release, recent] = match (limits, of_fleet("/fleet").await?, release, recent) {
        (Ok(limits), Ok(fleet), Ok(release), Ok(recent)) => [limits, fleet, release, recent],
        (Err(code), ..) | (_, Err(code), ..) | (_, _, Err(code), _) | (.., Err(code)) => {
            return Ok(Err(code));
        }
    };
    let (limits, fleet, release) = (asked::json(&limits)?, asked::json(&fleet)?, asked::json(&release)?);
    let release = release["release"].clone();
    let recent: RecentAnswer = serde_json::from_str(&recent)?;
    Ok(Ok(Seen { placement, limits, fleet, release, recent: Some(recent) }))
}
