//! Workers, and the threads that drive them: a runtime of its own for each, so that a connection never changes core; or one
//! runtime for all, so that a connection has as many cores as its streams can use.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How workers are driven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RuntimeFlavour {
    /// A thread and a current-thread runtime for each worker. Whatever a connection does is done on its worker's thread,
    /// which costs the least where connections are many.
    #[default]
    PerCore,
    /// As many threads in one runtime, each of which does whatever is to be done. For few connections with many streams,
    /// which would else keep one thread busy and leave the others idle.
    Shared,
}

/// Threads that drive futures to their end.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each of `futures`. A runtime that cannot be made is an error before anything runs.
    pub fn start<F>(name: &str, flavour: RuntimeFlavour, futures: Vec<F>) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match flavour {
            RuntimeFlavour::PerCore => Self::per_core(name, futures),
            RuntimeFlavour::Shared => Self::shared(name, futures),
        }
    }

    fn per_core<F>(name: &str, futures: Vec<F>) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = || Builder::new_current_thread().enable_all().build();
        let runtimes: Vec<Runtime> = futures.iter().map(|_| runtime()).collect::<io::Result<_>>()?;
        let mut threads = Vec::with_capacity(futures.len());
        for (n, (runtime, future)) in runtimes.into_iter().zip(futures).enumerate() {
            threads.push(drive(&format!("{name}-{n}"), runtime, future)?);
        }
        Ok(Self { threads })
    }

    fn shared<F>(name: &str, futures: Vec<F>) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(futures.len().max(1)).thread_name(name).enable_all().build()?;
        let all = async {
            let mut workers: JoinSet<()> = futures.into_iter().collect();
            while let Some(ended) = workers.join_next().await {
                if ended.is_err() {
                    tracing::error!("a worker panicked");
                }
            }
        };
        Ok(Self { threads: vec![drive(&format!("{name}-all"), runtime, all)?] })
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

/// A thread that waits for `future` on its runtime.
fn drive(
    name: &str,
    runtime: Runtime,
    future: impl Future<Output = ()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(future);
        // What a worker still runs past its deadline is cut here, not waited for.
        runtime.shutdown_background();
    })
}

/// How many workers a machine of this kind runs by default: one for each core that the process may use.
pub fn default_count() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
