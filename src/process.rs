//! What every long-running subcommand shares: logging, the runtime of the control thread, signals, how a fleet file is
//! taken anew, and how a process says that it cannot go on. Nothing here knows what the process does.

use std::fmt::Display;
use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use cofferdam_fleet::{Fleet, FleetError, Loaded, SHOWN_PROBLEMS};
use cofferdam_telemetry::logs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::not_asked::NotAsked;
use crate::watched::Watched;

/// The exit code for bad input, as in BSD's sysexits it stays apart from a failure at run time.
pub(crate) const BAD_INPUT: u8 = 2;

/// Flags of every long-running subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// What to log: a level, or target=level entries with commas
    #[arg(long, env = "COFFERDAM_LOG", default_value = "info")]
    log: logs::Filter,

    /// How a log line looks: text or json
    #[arg(long, env = "COFFERDAM_LOG_FORMAT", default_value = "text")]
    log_format: logs::Format,

    /// Leave in good order when standard input closes, so that no process outlives the one that started it
    #[arg(long)]
    until_stdin_closes: bool,
}

/// What a process is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Read the configuration again.
    Reload,
    /// Leave in good order.
    Leave,
    /// The same, to a successor that serves already.
    Followed,
}

/// Signals, the end of standard input, and changes of a file, as one stream of what the process is told.
#[derive(Debug)]
pub(crate) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    stdin_closed: tokio::sync::oneshot::Receiver<()>,
    file: Option<Watched>,
}

impl ProcessArgs {
    /// Sets up logging and runs `main` on a runtime for control, one thread.
    pub(crate) fn run<F>(&self, main: impl FnOnce(Signals) -> F) -> anyhow::Result<ExitCode>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        logs::init(self.log_format, &self.log)?;
        raise_open_files();
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async {
            let signals = Signals::new(self.until_stdin_closes)?;
            main(signals).await
        });
        // Whatever still blocks on this runtime's pool must not hold up the end, a bad one included.
        runtime.shutdown_background();
        done.map(|()| ExitCode::SUCCESS)
    }
}

impl Signals {
    fn new(until_stdin_closes: bool) -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        let (closed, stdin_closed) = tokio::sync::oneshot::channel();
        if until_stdin_closes {
            std::thread::spawn(move || {
                let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
                let _ = closed.send(());
            });
        } else {
            // The sender has to live as long as the process, or the receiver would see it go.
            std::mem::forget(closed);
        }
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            stdin_closed,
            file: None,
        })
    }

    /// Takes a change of this file for the word to read the configuration again.
    pub(crate) fn watch(&mut self, file: Watched) {
        self.file = Some(file);
    }

    /// The next thing that the process is told.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.hangup.recv() => {
                self.file.iter_mut().for_each(Watched::read_now);
                Told::Reload
            }
            () = changed(&mut self.file) => Told::Reload,
            _ = self.terminate.recv() => Told::Leave,
            _ = self.interrupt.recv() => Told::Leave,
            _ = &mut self.stdin_closed => Told::Leave,
        }
    }
}

async fn changed(file: &mut Option<Watched>) {
    match file {
        Some(file) => file.changed().await,
        None => std::future::pending().await,
    }
}

/// Takes as many open files as the process may have. Every connection is one, and the 1,024 that most systems begin with
/// for the sake of old programs would be a bound on clients that nobody chose.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, ?current, ?maximum, "could not raise the number of open files");
    }
}

/// Logs what is odd about a fleet file.
pub(crate) fn warn(loaded: &Loaded, file: &Path) {
    for warning in loaded.warnings.iter().take(SHOWN_PROBLEMS) {
        tracing::warn!("{}", warning.in_file(file));
    }
    let more = n_not_shown(loaded);
    if more > 0 {
        tracing::warn!("{}: {more} more warnings", file.display());
    }
}

/// How many warnings about a fleet file are only counted.
pub(crate) fn n_not_shown(loaded: &Loaded) -> usize {
    loaded.warnings.len().saturating_sub(SHOWN_PROBLEMS) + loaded.more_warnings
}

/// Reads or makes something on a thread that may block, so that nothing on this one waits for it.
pub(crate) async fn beside<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    let made = tokio::task::spawn_blocking(make).await;
    made.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
}

/// Hands a fleet that was read anew, or why it could not be, to `take`, and logs what came of it. A file that cannot be
/// used changes nothing.
pub(crate) async fn reload<E: Display>(
    path: &Path,
    loaded: Result<Loaded, FleetError>,
    take: impl AsyncFnOnce(Result<Fleet, String>) -> Result<(), E>,
) {
    let loaded = loaded.map_err(|error| error.to_string());
    let loaded = loaded.inspect(|loaded| warn(loaded, path)).map(|loaded| loaded.fleet);
    let revision = loaded.as_ref().map(|fleet| fleet.revision).ok();
    match take(loaded).await {
        Ok(()) => tracing::info!(revision = revision.map(tracing::field::display), "fleet file taken"),
        Err(error) => {
            tracing::error!(%error, file = %path.display(), "fleet file not taken: the old one goes on");
        }
    }
}

/// Prints why the command cannot go on, and what its exit code is.
#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn complain(error: &anyhow::Error) -> ExitCode {
    let fleet = error.downcast_ref::<FleetError>();
    match fleet {
        // Each line starts with its place, where editors find it.
        Some(problems @ FleetError::Problems { .. }) => eprintln!("{problems}"),
        _ => eprintln!("cofferdam: {error:#}"),
    }
    // Where another process answers, or none, the address is wrong: that is not what a command found out.
    if fleet.is_some() || error.is::<NotAsked>() { ExitCode::from(BAD_INPUT) } else { ExitCode::FAILURE }
}
