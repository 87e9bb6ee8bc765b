//! How late this machine is with what is due: a test takes it off the times that it holds the product to, so that a busy
//! machine fails no test and a slow product does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

const TICK: Duration = Duration::from_millis(10);

/// Sums up by how much timers of the current runtime are late.
pub(crate) struct Lateness {
    sum_us: Arc<AtomicU64>,
    _ticks: JoinSet<()>,
}

impl Lateness {
    pub(crate) fn start() -> Self {
        let sum_us = Arc::<AtomicU64>::default();
        let (mut ticks, sum) = (JoinSet::new(), Arc::clone(&sum_us));
        ticks.spawn(async move {
            loop {
                let due = Instant::now() + TICK;
                tokio::time::sleep(TICK).await;
                sum.fetch_add(due.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        });
        Self { sum_us, _ticks: ticks }
    }

    /// The sum so far.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us.load(Ordering::Relaxed))
    }
}
