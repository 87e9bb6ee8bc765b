//! How the workers of a process are driven: a thread for each, or all threads for all of them.

use cofferdam_proxy::workers::RuntimeFlavour;

/// Flags of every process that has workers.
#[derive(Debug, clap::Args)]
pub(crate) struct RuntimeArgs {
    /// per-core: what a connection does is done by one thread, which costs the least; shared: by all of them, for few
    /// long-lived connections of HTTP/2, each with more work than a core can do
    #[arg(long, env = "COFFERDAM_RUNTIME", value_enum, default_value = "per-core")]
    runtime: Runtime,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Runtime {
    PerCore,
    Shared,
}

impl RuntimeArgs {
    /// What was asked for.
    pub(crate) fn flavour(&self) -> RuntimeFlavour {
        match self.runtime {
            Runtime::PerCore => RuntimeFlavour::PerCore,
            Runtime::Shared => RuntimeFlavour::Shared,
        }
    }
}
