//! Processes that run beside the demonstration: started, started again after they died, and never left behind. It
//! does not know what they do.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How to start one process.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Its name, for messages.
    pub(crate) name: String,
    /// The executable.
    pub(crate) exe: PathBuf,
    /// The arguments.
    pub(crate) arguments: Vec<String>,
    /// Where its log goes.
    pub(crate) log: PathBuf,
    /// How long after its death it is started again; `None` for a process that must not die.
    pub(crate) restart_after: Option<Duration>,
}

/// Running processes. Dropping this kills them.
#[derive(Debug)]
pub(crate) struct Processes {
    watched: JoinSet<anyhow::Result<()>>,
    ending: watch::Sender<bool>,
    n_deaths: Arc<AtomicU32>,
}

/// A process and its standard input: the process leaves when that closes, which the kernel does even where the
/// demonstration is killed.
#[derive(Debug)]
struct Running {
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Processes {
    /// No process yet.
    pub(crate) fn new() -> Self {
        Self { watched: JoinSet::new(), ending: watch::Sender::new(false), n_deaths: Arc::default() }
    }

    /// Starts a process, and watches over it.
    pub(crate) fn start(&mut self, program: Program) -> anyhow::Result<()> {
        let running = program.spawn()?;
        self.watched.spawn(watch_over(program, running, self.ending.subscribe(), Arc::clone(&self.n_deaths)));
        Ok(())
    }

    /// How many times a process died by itself.
    pub(crate) fn n_deaths(&self) -> u32 {
        self.n_deaths.load(Ordering::Relaxed)
    }

    /// Kills what runs and waits until it is gone. The error of a process that ended, though it must not, comes out
    /// here.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.ending.send_replace(true);
        let mut result = Ok(());
        while let Some(watched) = self.watched.join_next().await {
            result = result.and(watched.context("a watcher broke").flatten());
        }
        result
    }
}

async fn watch_over(
    program: Program,
    mut running: Running,
    mut ending: watch::Receiver<bool>,
    n_deaths: Arc<AtomicU32>,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = told_to_end(&mut ending) => return running.child.kill().await.context("could not kill"),
            _ = running.child.wait() => {}
        }
        n_deaths.fetch_add(1, Ordering::Relaxed);
        let Some(pause) = program.restart_after else {
            bail!("{} ended by itself{}", program.name, program.last_words());
        };
        tokio::select! {
            () = told_to_end(&mut ending) => return Ok(()),
            () = sleep(pause) => running = program.spawn()?,
        }
    }
}

async fn told_to_end(ending: &mut watch::Receiver<bool>) {
    // Nobody left who could tell means the same.
    let _ = ending.wait_for(|ending| *ending).await;
}

impl Program {
    fn spawn(&self) -> anyhow::Result<Running> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let log = open(&self.log).with_context(|| format!("could not open {}", self.log.display()))?;
        let mut child = Command::new(&self.exe)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C in a terminal goes to a whole group of processes; these are for the demonstration to end.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("could not start {} ({})", self.name, self.exe.display()))?;
        // Waiting for a child closes its standard input, unless somebody else holds it.
        let stdin = child.stdin.take();
        Ok(Running { child, _stdin: stdin })
    }

    /// The end of the program's log, as the end of a message.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(5)..];
        if tail.is_empty() { String::new() } else { format!("; its last words:\n{}", tail.join("\n")) }
    }
}
