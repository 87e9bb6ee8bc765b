//! `cofferdam advise`: what a cell's compartments should be, by what its agent has counted.

mod measured;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstream::print;
use anyhow::{Context, ensure};
use cofferdam_bulkhead::advise;
use reqwest::Url;
use tokio::time::sleep;

use measured::Counted;

use crate::not_asked::{Another, Listener, NotAsked};
use crate::{asked, lasting};

/// Advise floors, ceilings and queues for a cell, by what its agent has measured
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's probe listener, such as http://10.0.1.10:7101, or a file that holds its /metrics
    #[arg(long, value_name = "URL|FILE")]
    from: String,

    /// Measure for so long, such as 10m; default: all the time since the agent started
    #[arg(long = "for", value_parser = lasting::time)]
    lasting: Option<Duration>,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let counted = match Url::parse(&args.from).ok().filter(|url| url.has_host()) {
        Some(url) => measure(url, args.lasting).await?,
        None => {
            ensure!(args.lasting.is_none(), "a file is what it is: --for needs an agent to ask");
            let path = PathBuf::from(&args.from);
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Counted::read(&text).with_context(|| format!("{} is no agent's /metrics", path.display()))?
        }
    };
    let cell = counted.cell()?;
    let (advice, adaptive) = (advise(&cell), counted.adaptive());
    print!("{}", report::Report { cell: &cell, advice: &advice, adaptive: &adaptive });
    Ok(ExitCode::SUCCESS)
}

/// What an agent has counted, or counts from now on.
async fn measure(mut url: Url, lasting: Option<Duration>) -> anyhow::Result<Counted> {
    if url.path() == "/" {
        url.set_path("/metrics");
    }
    let before = scrape(&url).await?;
    let Some(lasting) = lasting else { return Ok(before) };
    sleep(lasting).await;
    scrape(&url).await?.since(&before)
}

async fn scrape(url: &Url) -> anyhow::Result<Counted> {
    let (client, listener, address) = (asked::client()?, Listener::Metrics, url.as_str());
    let unanswered = |error| NotAsked::unanswered(listener, address, &error);
    let answer = client.get(url.clone()).send().await.map_err(unanswered)?;
    let status = answer.status();
    let text = answer.text().await.map_err(unanswered)?;
    let another = Another::Unknown(status);
    let is_of_agent = status.is_success() && text.contains("cofferdam_agent_");
    if !is_of_agent {
        return Err(NotAsked::answered_by_another(listener, address, &client, another).await.into());
    }
    Counted::read(&text).with_context(|| format!("{url} is no agent's /metrics"))
}
