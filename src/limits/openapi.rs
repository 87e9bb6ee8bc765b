//! `cofferdam limits openapi`: an OpenAPI document with the limits of one plan at each of its operations.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anstream::print;
use anyhow::{Context, bail};
use cofferdam_fleet::{Bucket, Fleet, Plan, Route, did_you_mean};
use cofferdam_model::Rate;

use super::document::{Document, Limits};

/// Add x-ratelimit-limit and x-ratelimit-burst to each operation of an OpenAPI document
///
/// Both count requests of the operation, as one tenant of the plan may send them: the plan's numbers divided by what the
/// operation's route costs, or the route's own limit where that is stricter.
///
/// x-ratelimit-limit is the sustained rate with its window, such as "20/s" or "150/min".
/// x-ratelimit-burst is how many may come at once, as a whole number.
///
/// Paths are matched as the router matches them, below the document's first server (`servers[0].url`, or `basePath`). A
/// `{parameter}` stands for one segment that no route names, and routes that ask for a query never match. An operation
/// that costs nothing on a route without a limit gets neither word. The document is printed as it is otherwise, YAML or
/// JSON, comments included; words that it has already are replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The OpenAPI document, in YAML or JSON
    document: PathBuf,

    /// The fleet file
    #[arg(long, env = "COFFERDAM_FLEET")]
    fleet: PathBuf,

    /// The plan; by default that of unknown tenants, or the only one
    #[arg(long)]
    plan: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let fleet = Fleet::load(&args.fleet)?.fleet;
    let plan = plan(&fleet, args.plan.as_deref())?;
    let text = fs::read_to_string(&args.document).with_context(|| args.document.display().to_string())?;
    let document = Document::read(&text).with_context(|| args.document.display().to_string())?;
    let limits = |operation: &super::document::Operation<'_>| {
        let route = fleet.classify(&operation.method, &operation.path, None);
        limits(plan, route)
    };
    print!("{}", document.with_limits(limits).with_context(|| args.document.display().to_string())?);
    Ok(ExitCode::SUCCESS)
}

fn plan<'f>(fleet: &'f Fleet, name: Option<&str>) -> anyhow::Result<&'f Plan> {
    let names = || fleet.plans.iter().map(|plan| plan.name.as_str());
    match (name, fleet.tenant.unknown, fleet.plans.as_slice()) {
        (Some(name), ..) => {
            let found = fleet.plans.iter().find(|plan| plan.name.as_str() == name);
            found.with_context(|| format!("plan {name:?} is not defined{}", did_you_mean(name, names())))
        }
        (None, Some(unknown), plans) => plans.get(unknown.get()).context("the fleet has no plans"),
        (None, None, [only]) => Ok(only),
        (None, None, _) => bail!("--plan is needed: one of {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// The strictest of what the plan and the route let through, in requests.
fn limits(plan: &Plan, route: &Route) -> Option<Limits> {
    let of_plan = (route.cost > 0).then(|| InRequests::new(plan.bucket, route.cost));
    let of_route = route.limit.map(|bucket| InRequests::new(bucket, 1));
    let both = [of_plan, of_route];
    let slowest = both.iter().flatten().min_by(|a, b| a.cmp_rate(b))?;
    let burst = both.iter().flatten().map(|limit| limit.burst).min()?;
    Some(Limits { limit: slowest.rate(), burst })
}

/// A bucket as requests of one cost see it.
struct InRequests {
    tokens: u64,
    period_us: u64,
    burst: u64,
}

impl InRequests {
    fn new(bucket: Bucket, cost: u32) -> Self {
        let Bucket { sustained, burst } = bucket;
        let period_us = sustained.period_us().saturating_mul(cost.into());
        Self { tokens: sustained.tokens(), period_us, burst: burst / u64::from(cost) }
    }

    fn cmp_rate(&self, other: &Self) -> std::cmp::Ordering {
        let scaled = |a: &Self, b: &Self| u128::from(a.tokens) * u128::from(b.period_us);
        scaled(self, other).cmp(&scaled(other, self))
    }

    /// In the unit in which it is a whole number, or else in so many seconds.
    fn rate(&self) -> String {
        let exact = Rate::new(self.tokens, self.period_us).map(|rate| rate.to_string());
        let in_seconds = || format!("{}/{}s", self.tokens, self.period_us.div_ceil(1_000_000));
        exact
            .filter(|text| !text.ends_with("us") || !self.period_us.is_multiple_of(1_000_000))
            .unwrap_or_else(in_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str, cost: u32) -> (String, u64) {
        let bucket = Bucket { sustained: text.parse().unwrap(), burst: 100 };
        let limit = InRequests::new(bucket, cost);
        (limit.rate(), limit.burst)
    }

    #[test]
    fn a_rate_is_divided_by_the_cost_and_stays_exact() {
        assert_eq!(rate("20/s", 1), ("20/s".to_owned(), 100));
        assert_eq!(rate("20/s", 8), ("150/min".to_owned(), 12));
        assert_eq!(rate("1/s", 7), ("1/7s".to_owned(), 14));
        assert_eq!(rate("1/d", 101), ("1/8726400s".to_owned(), 0));
    }
}
