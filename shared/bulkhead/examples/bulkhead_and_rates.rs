//! Long reports and short checkout calls in one service: out of one pool, and each behind a cap of its own; then rates, which
//! bound how fast a caller may go where a bulkhead bounds how many are in flight. Time is paused.
//!
//! `cargo run -p cofferdam-bulkhead --example bulkhead_and_rates`

#![expect(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use cofferdam_bulkhead::Bulkhead;
use cofferdam_limits::{
    Admission, BucketPolicy, Clock, Demand, Embedded, LevelPolicy, Levels, Limits, ManualClock, Outcome,
};
use cofferdam_model::{Alphabet, Level, TenantId};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

/// How long a report and a checkout call work.
const REPORT: Duration = Duration::from_secs(5);
const CHECKOUT: Duration = Duration::from_millis(20);
/// How long is counted: two reports.
const TIME: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", report()?);
    Ok(())
}

/// What it prints.
pub(crate) fn report() -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut report = String::new();
        writeln!(report, "300 who want reports of 5 s and 80 who check out in 20 ms, for 10 s:")?;
        let threads = Bulkhead::new("threads", 200);
        side_by_side(&mut report, "200 places for both", &threads, &threads).await?;
        let reports = Bulkhead::new("reports", 40).queue(40, Duration::from_millis(50));
        let checkout = Bulkhead::new("checkout", 80).queue(80, Duration::from_millis(100));
        side_by_side(&mut report, "40 for reports, 80 for checkout", &reports, &checkout).await?;
        rates(&mut report)?;
        Ok(report)
    })
}

/// A caller that comes again as soon as it was served, and 50 ms after a refusal; how often it was served in time.
async fn caller(bulkhead: &Bulkhead, work: Duration, end: Instant) -> u64 {
    // The clock goes in milliseconds.
    let last = end + Duration::from_millis(5);
    let mut served = 0;
    while Instant::now() < end {
        // A sleep begins when it is made, and the work when it has its place.
        match bulkhead.run(async { sleep(work).await }).await {
            Ok(()) => served += u64::from(Instant::now() < last),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    served
}

async fn callers(n: usize, bulkhead: &Bulkhead, work: Duration, end: Instant) -> u64 {
    join_all((0..n).map(|_| caller(bulkhead, work, end))).await.into_iter().sum()
}

async fn side_by_side(
    report: &mut String,
    name: &str,
    reports: &Bulkhead,
    checkout: &Bulkhead,
) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + TIME;
    // The batch of reports comes first.
    let (n_reports, n_checkouts) =
        tokio::join!(callers(300, reports, REPORT, end), callers(80, checkout, CHECKOUT, end));
    let rate = |served| served / TIME.as_secs();
    writeln!(report, "  {name:<32} reports {:>2}/s, checkout {:>4}/s", rate(n_reports), rate(n_checkouts))?;
    Ok(())
}

/// A tenant that may have 100 at once and 20 a second after that.
fn rates(report: &mut String) -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::at(0);
    let limits = Limits::embedded(Embedded::new(Clock::from(clock.clone())));
    let bucket = BucketPolicy::new("20/s".parse()?, 100)?;
    let levels =
        Levels::new(&[LevelPolicy { bucket: Some(bucket), ..LevelPolicy::unlimited(Level::Tenant) }])?;
    let tenant = |name: &str| TenantId::parse(name.as_bytes(), &Alphabet::default());
    let admitted = |tenant: &TenantId, cost| -> u32 {
        let demand = Demand::new(tenant, cost, &levels);
        let mut admitted = 0;
        while let Admission::Admitted(permit) = limits.admit(&demand) {
            permit.release(Outcome::Success);
            admitted += 1;
        }
        admitted
    };
    writeln!(report, "\nA tenant with a burst of 100 and 20/s:")?;
    let acme = tenant("acme")?;
    writeln!(report, "  at once {}", admitted(&acme, 1))?;
    for _ in 0..2 {
        clock.advance(Duration::from_secs(1));
        writeln!(report, "  a second later {}", admitted(&acme, 1))?;
    }
    for (route, cost) in [("/health", 1), ("/v1/orders", 2), ("/v1/search", 8), ("search unindexed", 16)] {
        let fresh = tenant(&format!("costs-{cost}"))?;
        writeln!(report, "  {route:<17} costs {cost:>2}: {:>3} at once", admitted(&fresh, cost))?;
    }
    Ok(())
}
