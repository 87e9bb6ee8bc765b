//! A service of 12 places that calls a catalog, payments and recommendations, while recommendations hang: what one pool for
//! all costs, what compartments save, how large they have to be, and what they lend. Time is paused.
//!
//! `cargo run -p cofferdam-bulkhead --example the_pattern`

#![expect(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::fmt::Write;
use std::future::pending;
use std::time::Duration;

use cofferdam_bulkhead::{Bulkhead, ClassLayout, Compartments, Layout, TenantShare, loss, places_for, size};
use cofferdam_model::{Alphabet, ClassName, TenantId};
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
        in_flight(&mut report)?;
        one_pool(&mut report).await?;
        compartments(&mut report).await?;
        chance(&mut report)?;
        floors(&mut report)?;
        a_share(&mut report)?;
        instances(&mut report)?;
        Ok(report)
    })
}

fn in_flight(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "10 calls in a second, in flight:")?;
    for (name, ms) in [("healthy", 100), ("hung", 30_000)] {
        let places = size("10/s".parse()?, Duration::from_millis(ms), 1000)?;
        writeln!(report, "  {name:<8} {:>4.1} s each: {places:>3}", Duration::from_millis(ms).as_secs_f64())?;
    }
    Ok(())
}

/// Calls of a healthy dependency, one after the other; how many were served.
async fn healthy(bulkhead: &Bulkhead) -> usize {
    let mut served = 0;
    for _ in 0..10 {
        let calls = (0..5).map(|_| bulkhead.run(async { sleep(Duration::from_millis(50)).await }));
        served += join_all(calls).await.into_iter().filter(Result::is_ok).count();
    }
    served
}

/// Calls that never end, as long as what this returns is kept.
fn hang(bulkhead: &Bulkhead, n: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let call = |bulkhead: Bulkhead| async move {
        // Either way nothing comes back.
        let _ = bulkhead.run(pending::<()>()).await;
    };
    (0..n).map(|_| tokio::spawn(call(bulkhead.clone()))).collect()
}

async fn one_pool(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nOne pool of 12 for all, and recommendations hang:")?;
    let all = Bulkhead::new("all", 12);
    let hung = hang(&all, 12);
    sleep(Duration::from_millis(1)).await;
    writeln!(report, "  catalog:  {:>2} of 50 served", healthy(&all).await)?;
    writeln!(report, "  payments: {:>2} of 50 served", healthy(&all).await)?;
    hung.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

async fn compartments(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nCompartments of 5, 5 and 2, and recommendations hang:")?;
    let [catalog, payments, recommendations] = [("catalog", 5), ("payments", 5), ("recommendations", 2)]
        .map(|(name, limit)| Bulkhead::new(name, limit));
    let hung = hang(&recommendations, 2);
    sleep(Duration::from_millis(1)).await;
    let start = Instant::now();
    let third = recommendations.acquire().await.err().ok_or("there is no third place")?;
    writeln!(report, "  the third call, after {} ms: {third}", start.elapsed().as_millis())?;
    let (catalog, payments) = tokio::join!(healthy(&catalog), healthy(&payments));
    writeln!(report, "  catalog:  {catalog} of 50 served\n  payments: {payments} of 50 served")?;
    hung.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

fn chance(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nCalls that come at random, four in flight on average:")?;
    writeln!(report, "  5 places refuse {:.1} of 100", 100.0 * loss(5, 4.0))?;
    let places = places_for(4.0, 0.01).ok_or("there are enough")?;
    writeln!(report, "  1 of 100 takes {places} places")?;
    Ok(())
}

fn class(name: &str, floor: u32, ceiling: u32) -> Result<ClassLayout, Box<dyn Error>> {
    let name = ClassName::parse(name)?;
    Ok(ClassLayout { name, priority: 1, floor, ceiling, queue: 0, max_wait: Duration::ZERO })
}

fn tenant(name: &str) -> Result<TenantId, Box<dyn Error>> {
    Ok(TenantId::parse(name.as_bytes(), &Alphabet::default())?)
}

/// Places of a class that are given until there are no more, and kept.
fn take(cell: &Compartments, class: usize, tenant: &TenantId) -> Vec<cofferdam_bulkhead::Place> {
    std::iter::repeat_with(|| cell.try_acquire(class, tenant)).map_while(Result::ok).collect()
}

fn floors(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nThe same 12 places with floors of 5, 5 and 0 and ceilings of 12, 12 and 2:")?;
    let classes = vec![class("catalog", 5, 12)?, class("payments", 5, 12)?, class("recommendations", 0, 2)?];
    let cell = Compartments::new(Layout::new(12, TenantShare::WHOLE, 100, classes)?);
    let acme = tenant("acme")?;
    let catalog = take(&cell, 0, &acme);
    writeln!(report, "  catalog in a burst has {}: what is idle is lent, and 5 are kept", catalog.len())?;
    let payments = take(&cell, 1, &acme);
    writeln!(report, "  payments still has {}", payments.len())?;
    drop((catalog, payments));
    let recommendations = take(&cell, 2, &acme);
    writeln!(report, "  recommendations has {} in an idle cell", recommendations.len())?;
    Ok(())
}

fn a_share(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\n40 places, of which a tenant may have a quarter:")?;
    let cell =
        Compartments::new(Layout::new(40, TenantShare::default(), 100, vec![class("search", 0, 40)?])?);
    let (noisy, other) = (tenant("noisy")?, tenant("other")?);
    let (noisy, other) = (take(&cell, 0, &noisy), take(&cell, 0, &other));
    writeln!(report, "  a noisy one has {}, another {}", noisy.len(), other.len())?;
    Ok(())
}

fn instances(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nA limit of 2, on 20 instances:")?;
    let instances: Vec<_> = (0..20).map(|_| Bulkhead::new("recommendations", 2)).collect();
    let acquire =
        |bulkhead: &Bulkhead| (0..3).filter_map(|_| bulkhead.try_acquire().ok()).collect::<Vec<_>>();
    let places: Vec<_> = instances.iter().flat_map(acquire).collect();
    writeln!(report, "  the dependency has {} at once", places.len())?;
    Ok(())
}
