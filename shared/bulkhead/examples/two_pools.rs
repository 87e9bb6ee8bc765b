//! An order service that calls a slow payment provider and a healthy inventory system from threads that block: first out of
//! one pool, then out of a pool for each, then without a queue, and last while a pool is closed.
//!
//! `cargo run -p cofferdam-bulkhead --example two_pools`

#![expect(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use cofferdam_bulkhead::{Denied, Pool, Running};

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", report()?);
    Ok(())
}

/// What it prints.
pub(crate) fn report() -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let mut report = String::new();
        one_pool(&mut report).await?;
        a_pool_for_each(&mut report).await?;
        a_hand_off(&mut report).await?;
        a_close(&mut report).await?;
        Ok(report)
    })
}

/// A provider that takes 300 ms for each call, once all have been made: so many calls at once are what it is about.
#[derive(Clone, Default)]
struct Payment(Arc<OnceLock<()>>);

impl Payment {
    const LATENCY: Duration = Duration::from_millis(300);

    fn call(&self) -> impl FnOnce() -> &'static str + Send + use<> {
        let has_all = Arc::clone(&self.0);
        move || {
            has_all.wait();
            thread::sleep(Self::LATENCY);
            "approved"
        }
    }

    fn begin(&self) {
        // Told twice is told.
        let _ = self.0.set(());
    }
}

/// Calls of one dependency, and what became of them.
struct Calls {
    taken: Vec<Running<&'static str>>,
    refused: Vec<Denied>,
}

impl Calls {
    fn flood(pool: &Pool, payment: &Payment, n: usize) -> Self {
        let (taken, refused): (Vec<_>, Vec<_>) =
            (0..n).map(|_| pool.submit(payment.call())).partition(Result::is_ok);
        let refused = refused.into_iter().filter_map(Result::err).collect();
        Self { taken: taken.into_iter().flatten().collect(), refused }
    }

    /// Waits for those that were taken.
    async fn tell(self, report: &mut String, dependency: &str) -> Result<(), Box<dyn Error>> {
        let (n_taken, n_refused) = (self.taken.len(), self.refused.len());
        let mut served = 0;
        for call in self.taken {
            served += usize::from(call.await? == "approved");
        }
        line(report, dependency, n_taken + n_refused, served, n_refused)?;
        if let Some(denied) = self.refused.first() {
            writeln!(report, "    {denied}")?;
        }
        Ok(())
    }
}

fn line(
    report: &mut String,
    dependency: &str,
    calls: usize,
    served: usize,
    refused: usize,
) -> std::fmt::Result {
    writeln!(report, "  {dependency:<10} calls {calls:>2}, served {served:>2}, refused {refused:>2}")
}

/// The healthy system answers at once, one call after the other.
async fn inventory(report: &mut String, pool: &Pool, n: usize) -> Result<(), Box<dyn Error>> {
    let (mut served, mut refused) = (0, None);
    for _ in 0..n {
        match pool.run(|| "reserved").await {
            Ok(_) => served += 1,
            Err(error) => refused = Some(error),
        }
    }
    line(report, "inventory", n, served, n - served)?;
    if let Some(error) = refused {
        writeln!(report, "    {error}")?;
    }
    Ok(())
}

async fn one_pool(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "One pool of 2 threads and a queue of 2 for both:")?;
    let (shared, payment) = (Pool::new("shared", 2, 2)?, Payment::default());
    let payments = Calls::flood(&shared, &payment, 4);
    inventory(report, &shared, 1).await?;
    payment.begin();
    payments.tell(report, "payment").await
}

async fn a_pool_for_each(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nA pool of 2 threads and a queue of 2 for each:")?;
    let (payments, stock) = (Pool::new("payment", 2, 2)?, Pool::new("inventory", 2, 2)?);
    let payment = Payment::default();
    let flood = Calls::flood(&payments, &payment, 10);
    inventory(report, &stock, 3).await?;
    payment.begin();
    flood.tell(report, "payment").await
}

async fn a_hand_off(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nA pool of 2 threads without a queue:")?;
    let (pool, payment) = (Pool::new("payment", 2, 0)?, Payment::default());
    let flood = Calls::flood(&pool, &payment, 3);
    payment.begin();
    flood.tell(report, "payment").await
}

async fn a_close(report: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(report, "\nA pool of 1 thread that is closed while one call runs and one waits:")?;
    let (pool, payment) = (Pool::new("payment", 1, 1)?, Payment::default());
    let (begun, has_begun) = std::sync::mpsc::channel();
    let call = payment.call();
    let running = pool.submit(move || {
        // The receiver waits for it.
        let _ = begun.send(());
        call()
    })?;
    has_begun.recv()?;
    let queued = pool.submit(payment.call())?;
    pool.close();
    payment.begin();
    writeln!(report, "  running    {}", running.await?)?;
    for (name, outcome) in [("queued", queued.await), ("later", pool.run(|| "never").await)] {
        writeln!(report, "  {name:<10} {}", outcome.map_or_else(|error| error.to_string(), str::to_owned))?;
    }
    writeln!(report, "  {} counted as refused", pool.snapshot().refused)?;
    Ok(())
}
