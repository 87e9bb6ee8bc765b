//! Workers: one thread and one current-thread runtime for each core, so that a connection never changes core.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};

/// Threads that each drive one future to its end.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each of `futures`, on a runtime of its own. A runtime that cannot be made is an error
    /// before anything runs.
    pub fn start<F>(name: &str, futures: Vec<F>) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtimes: Vec<Runtime> = futures.iter().map(|_| runtime()).collect::<io::Result<_>>()?;
        let mut threads = Vec::with_capacity(futures.len());
        for (n, (runtime, future)) in runtimes.into_iter().zip(futures).enumerate() {
            let builder = std::thread::Builder::new().name(format!("{name}-{n}"));
            threads.push(builder.spawn(move || {
                runtime.block_on(future);
                // What a worker still runs past its deadline is cut here, not waited for.
                runtime.shutdown_background();
            })?);
        }
        Ok(Self { threads })
    }

    /// Waits until every worker has ended. Blocks: call it from a thread that may.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// How many workers a machine of this kind runs by default: one for each core that the process may use.
pub fn default_count() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
