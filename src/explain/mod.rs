//! `cofferdam explain`: where a tenant is and why, whether it is well there, and what binds it. A running router knows all of
//! it; a fleet file knows what does not change by itself.

mod explanation;
mod file;
mod findings;
mod shown;

use std::path::PathBuf;
use std::process::ExitCode;

use anstream::println;
use cofferdam_fleet::FleetError;

use explanation::Explanation;

use crate::asked::{self, OfTenant};
use crate::process::BAD_INPUT;

/// Explain a tenant: where it is and why, whether it is well there, and what binds it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: OfTenant,

    /// Explain by this fleet file, and ask no router
    #[arg(long, conflicts_with = "admin")]
    fleet: Option<PathBuf>,
}

#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut explanation = match &args.fleet {
        Some(path) => match file::explain(path, &args.of.tenant) {
            Err(error) if !error.is::<FleetError>() => {
                eprintln!("cofferdam: {error:#}");
                return Ok(ExitCode::from(BAD_INPUT));
            }
            explained => explained?,
        },
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            match runtime.block_on(ask(&args.of))? {
                Ok(explanation) => explanation,
                Err(code) => return Ok(code),
            }
        }
    };
    explanation.findings = findings::findings(&explanation);
    if args.of.at.json {
        println!("{}", serde_json::to_string(&explanation)?);
    } else {
        println!("{}", shown::text(&explanation, args.fleet.is_none()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks a router for everything that it knows.
async fn ask(of: &OfTenant) -> anyhow::Result<Result<Explanation, ExitCode>> {
    let client = asked::client()?;
    let of_tenant = async |what: &str| of.answer(&client, what, |client, url| client.get(url)).await;
    let placement = match of_tenant("").await? {
        Ok(text) => asked::json(&text)?,
        Err(code) => return Ok(Err(code)),
    };
    // Who has no plan has no limits either.
    let limits = match placement["plan"].is_null() {
        true => Ok("null".to_owned()),
        false => of_tenant("/limits").await?,
    };
    let of_fleet = async |path: &str| of.at.answer(&client, path, |client, url| client.get(url)).await;
    let release = match placement["waits_for_release"] == true {
        true => of_fleet("/placement/release").await?,
        false => Ok("null".to_owned()),
    };
    let [limits, fleet, release] = match (limits, of_fleet("/fleet").await?, release) {
        (Ok(limits), Ok(fleet), Ok(release)) => [limits, fleet, release],
        (Err(code), ..) | (_, Err(code), _) | (.., Err(code)) => return Ok(Err(code)),
    };
    let (limits, fleet, release) = (asked::json(&limits)?, asked::json(&fleet)?, asked::json(&release)?);
    let release = release["release"].clone();
    Ok(Ok(Explanation { placement, limits, fleet, release, findings: Vec::new() }))
}
