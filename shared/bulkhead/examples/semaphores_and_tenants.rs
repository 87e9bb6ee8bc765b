//! A service with a bulkhead for each of its dependencies, a breaker on one of them, and a limit for each tenant by its
//! plan. Time is paused, so that every number is the same in every run.
//!
//! `cargo run -p cofferdam-bulkhead --example semaphores_and_tenants`

#![expect(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use cofferdam_bulkhead::{Breaker, BreakerPolicy, Bulkhead, Bulkheads, size};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", report()?);
    Ok(())
}

/// What it prints.
pub(crate) fn report() -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut report = String::new();
        limits(&mut report)?;
        sizes(&mut report)?;
        isolation(&mut report).await?;
        breaker(&mut report).await?;
        tenants(&mut report).await?;
        Ok(report)
    })
}

/// Places that are given until there are no more.
fn places(bulkhead: &Bulkhead) -> usize {
    std::iter::repeat_with(|| bulkhead.try_acquire()).map_while(Result::ok).collect::<Vec<_>>().len()
}

fn limits(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "Limits by name:")?;
    let named = [("payment", 10), ("user", 50), ("product", 100)];
    let default = Bulkhead::new("default", 20);
    let bulkheads = Bulkheads::new(default, named.map(|(name, limit)| Bulkhead::new(name, limit)))?;
    for name in ["payment", "user", "product", "shipping", "no-such-service"] {
        let bulkhead = bulkheads.get(name);
        writeln!(report, "  {name:<16}{:>4} at once, by {}", places(bulkhead), bulkhead.name())?;
    }
    Ok(())
}

fn sizes(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nSizes, with 1.3 for headroom:")?;
    for (name, rate, p99_ms) in [("payment", "10/s", 2000), ("search", "100/s", 500), ("cache", "1000/s", 10)]
    {
        let places = size(rate.parse()?, Duration::from_millis(p99_ms), 1300)?;
        writeln!(report, "  {name:<10}{rate:>8} of {p99_ms:>4} ms: {places:>3} places")?;
    }
    Ok(())
}

/// Calls that take so long each, begun at once; how many were served.
async fn calls(bulkhead: &Bulkhead, n: usize, time: Duration) -> usize {
    // A sleep begins when it is made, and a call when it has its place.
    let calls = (0..n).map(|_| bulkhead.run(async { sleep(time).await }));
    join_all(calls).await.into_iter().filter(Result::is_ok).count()
}

async fn isolation(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\n15 slow calls of 5 s on 10 places, and 20 fast ones of 10 ms on 50 others:")?;
    let slow = Bulkhead::new("slow", 10).queue(5, Duration::from_secs(60));
    let fast = Bulkhead::new("fast", 50);
    let start = Instant::now();
    let fast_calls = async {
        sleep(Duration::from_millis(100)).await;
        let (seen, start) = (slow.snapshot(), Instant::now());
        let served = calls(&fast, 20, Duration::from_millis(10)).await;
        (seen, served, start.elapsed().as_millis())
    };
    let (slow_served, (seen, served, elapsed)) =
        tokio::join!(calls(&slow, 15, Duration::from_secs(5)), fast_calls);
    writeln!(report, "  slow: {} at work and {} waiting", seen.active, seen.queued)?;
    writeln!(report, "  fast: {served} of 20 served, after {elapsed} ms")?;
    writeln!(report, "  slow: {slow_served} of 15 served, after {} s", start.elapsed().as_secs())?;
    Ok(())
}

async fn breaker(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nA dependency that fails, behind a breaker:")?;
    let breaker = Breaker::new(BreakerPolicy::default());
    let mut failed = 0;
    while let Ok(pass) = breaker.pass() {
        failed += 1;
        pass.failed();
    }
    let open = breaker.pass().err().ok_or("it is open")?;
    writeln!(report, "  after {failed} failures it is left alone for {} s", open.0.as_secs())?;
    sleep(open.0).await;
    let trying: Vec<_> = (0..20).map_while(|_| breaker.pass().ok()).collect();
    writeln!(report, "  then {} of 20 calls tries it", trying.len())?;
    for pass in trying {
        pass.succeeded();
    }
    let passing: Vec<_> = (0..20).map_while(|_| breaker.pass().ok()).collect();
    writeln!(report, "  it answers, and {} of 20 pass", passing.len())?;
    Ok(())
}

async fn tenants(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nTenants by plan; acme and tiny call 1,000 times at once:")?;
    // Whom we know, by configuration: a name that a caller makes up gets no limit of its own, and all such share one.
    let plans = [("acme", "enterprise", 100), ("middle", "pro", 50), ("tiny", "free", 10)];
    let strangers = Bulkhead::new("strangers", 10);
    let tenants = Bulkheads::new(strangers, plans.map(|(tenant, _, limit)| Bulkhead::new(tenant, limit)))?;
    let second = Duration::from_secs(1);
    let (acme, tiny, middle) = tokio::join!(
        calls(tenants.get("acme"), 1000, second),
        calls(tenants.get("tiny"), 1000, second),
        calls(tenants.get("middle"), 40, second),
    );
    writeln!(report, "  acme, enterprise: {acme} of 1000 served")?;
    writeln!(report, "  tiny, free:       {tiny} of 1000 served")?;
    writeln!(report, "  middle, pro:      {middle} of 40 served")?;
    let known = plans.iter().map(|(tenant, ..)| *tenant);
    for tenant in known.chain(["who-is-this", "and-this"]) {
        writeln!(report, "  {tenant:<12}{:>4} at once", places(tenants.get(tenant)))?;
    }
    Ok(())
}
