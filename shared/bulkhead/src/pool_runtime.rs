//! A pool for futures: a runtime of its own, whose threads nothing else can use, and a cap on how many are in it.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::bulkhead::{Bulkhead, BulkheadSnapshot};
use crate::denied::Denied;
use crate::pool::{Caller, Pool, PoolError, panic_message};

/// A runtime of its own, and a bulkhead before it. Clones are the same pool.
///
/// ```
/// use cofferdam_bulkhead::Pool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// // One thread, and at most eight futures at once.
/// let reports = Pool::runtime("reports", 1, 8)?;
/// let sum = reports.run(async { (1..=1_000_u64).sum::<u64>() }).await.unwrap();
/// assert_eq!(sum, 500_500);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RuntimePool(Arc<Reserved>);

struct Reserved {
    bulkhead: Bulkhead,
    /// `None` once it is being dropped.
    runtime: Option<Runtime>,
}

/// A task that ends when nobody waits for it.
struct Task<T>(JoinHandle<T>);

impl Pool {
    /// A runtime with `threads` threads of its own, at least one, for at most `limit` futures at once.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn runtime(name: &str, threads: u32, limit: u32) -> io::Result<RuntimePool> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1) as usize)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(RuntimePool(Arc::new(Reserved { bulkhead: Bulkhead::new(name, limit), runtime: Some(runtime) })))
    }
}

impl RuntimePool {
    /// The same pool, before which `queue` calls may wait for up to `max_wait` each.
    pub fn queue(self, queue: u32, max_wait: Duration) -> Self {
        drop(self.0.bulkhead.clone().queue(queue, max_wait));
        self
    }

    /// The outcome of `call`, which is polled on the pool's threads alone, in the caller's span; what else a task of the
    /// caller's knows goes along in `call`. Dropping the future ends the call, and its place is released once it has ended.
    ///
    /// # Errors
    /// The pool is full or closed; `call` panicked.
    pub async fn run<F>(&self, call: F) -> Result<F::Output, PoolError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let caller = Caller::capture(None);
        let place = self.0.bulkhead.acquire().await?;
        let runtime = self.0.runtime.as_ref().expect("it is there until the last handle goes");
        let call = caller.follow(call);
        let mut task = Task(runtime.spawn(async move {
            let _place = place;
            call.await
        }));
        let name = || Arc::clone(&self.0.bulkhead.snapshot().name);
        (&mut task.0).await.map_err(|error| match error.try_into_panic() {
            Ok(payload) => PoolError::Panicked { pool: name(), message: panic_message(&*payload) },
            Err(_cancelled) => Denied::ShutDown(name()).into(),
        })
    }

    /// Everything, at about one moment.
    pub fn snapshot(&self) -> BulkheadSnapshot {
        self.0.bulkhead.snapshot()
    }

    /// Closes: whoever waits and whoever comes is told that it is shut down. Calls that run are finished.
    pub fn close(&self) {
        self.0.bulkhead.close();
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Within another runtime nobody may wait for its end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for RuntimePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuntimePool").field(&self.snapshot()).finish()
    }
}
