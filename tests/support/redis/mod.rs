//! A real `redis-server` for one test: on ports and a socket of its own, with nothing on disk, gone with the test. It knows
//! no script, and of the keys those of the epochs alone.

#![allow(dead_code, reason = "each binary of tests that includes this folder has its own part of it")]

pub(crate) mod cluster;
pub(crate) mod sentinel;

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{BUCKETS, Fleet, OverrideBook, Script};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server that runs until it is dropped, or killed.
pub(crate) struct RedisServer {
    folder: TempDir,
    port: u16,
    pid: u32,
    program: PathBuf,
    arguments: Vec<String>,
    keeper: Option<Keeper>,
}

/// The thread that started a server, and how it is told to stop it.
struct Keeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The longest that a server's start is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

impl RedisServer {
    /// A server that evicts nothing and keeps nothing.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The only node of a cluster, which serves every slot.
    pub(crate) fn start_cluster_of_one() -> Self {
        let bus = free_port().to_string();
        let server = Self::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
        let mut connection = server.connect();
        let slots = ::redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).clone();
        slots.exec(&mut connection).unwrap();
        let started = Instant::now();
        loop {
            let info: String = ::redis::cmd("CLUSTER").arg("INFO").query(&mut connection).unwrap();
            if info.contains("cluster_state:ok") {
                return server;
            }
            assert!(started.elapsed() < PATIENCE, "the cluster is not ready: {info}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A server with these arguments behind its own.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_program(Path::new("redis-server"), arguments)
    }

    /// The same in Valkey's place, which is looked for on PATH and else brought by `valkey.sh`.
    pub(crate) fn start_valkey() -> Self {
        let here = Path::new("tests/support/redis/valkey.sh");
        let roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let script = roots.map(|root| root.join(here)).find(|script| script.exists()).unwrap();
        let output =
            Command::new(script).arg(env!("CARGO_TARGET_TMPDIR")).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "no valkey-server: {}", output.status);
        Self::start_program(Path::new(String::from_utf8(output.stdout).unwrap().trim()), &[])
    }

    fn start_program(program: &Path, arguments: &[&str]) -> Self {
        // Whoever else asks for a port at this moment can be faster; then another one is tried.
        for _ in 0..5 {
            if let Some(server) = Self::try_start(program, arguments, free_port()) {
                return server;
            }
        }
        panic!("no {} in five attempts", program.display());
    }

    fn try_start(program: &Path, arguments: &[&str], port: u16) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let command = command(program, folder.path(), port, arguments);
        let (mut pid, mut keeper) = (0, None);
        if let Ok((child, thread)) = keep(command) {
            (pid, keeper) = (child, Some(thread));
        }
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let server = Self { folder, port, pid, program: program.to_owned(), arguments, keeper };
        assert!(server.keeper.is_some(), "setpriv is not there: see tests/prerequisites.sh");
        server.is_ready().then_some(server)
    }

    /// Whether it answers at last; not if it ended.
    fn is_ready(&self) -> bool {
        let client = ::redis::Client::open(self.unix_url()).unwrap();
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Ok(mut connection) = client.get_connection()
                && ::redis::cmd("PING").exec(&mut connection).is_ok()
            {
                return true;
            }
            if self.keeper.as_ref().is_none_or(Keeper::is_over) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Has it remember everything of `fleet` since long ago.
    pub(crate) fn begin_epochs(&self, fleet: &Fleet) {
        begin_epochs(&mut self.connect(), fleet);
    }

    /// Its port on the loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its address on the loopback, as the client takes it.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its socket, as the client takes it.
    pub(crate) fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// A connection that blocks.
    pub(crate) fn connect(&self) -> ::redis::Connection {
        ::redis::Client::open(self.unix_url()).unwrap().get_connection().unwrap()
    }

    /// What every router of `fleet` reads and writes of one kind of overrides.
    pub(crate) async fn overrides(&self, fleet: &Fleet, kind: &str) -> OverrideBook {
        let link = Link::open_with_timeout(self.url().parse().unwrap(), Script::sync(), PATIENCE);
        link.connected().await;
        OverrideBook::new(link, fleet, kind)
    }

    /// Whether it was not killed.
    pub(crate) fn is_running(&self) -> bool {
        self.keeper.is_some()
    }

    /// Stops it where it stands: it keeps its connections, takes others, and says nothing.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Kills it as the kernel would: nothing is said to anybody.
    pub(crate) fn kill(&mut self) {
        self.keeper = None;
    }

    /// Starts it once more at the same place. It has forgotten everything.
    pub(crate) fn start_again(&mut self) {
        self.kill();
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let (pid, keeper) = keep(command(&self.program, self.folder.path(), self.port, &arguments)).unwrap();
        (self.pid, self.keeper) = (pid, Some(keeper));
        assert!(self.is_ready(), "its port was taken meanwhile");
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }
}

impl Keeper {
    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Has a server remember everything of `fleet` since long ago: a slot that has just begun grants no permits for a while.
pub(crate) fn begin_epochs(connection: &mut ::redis::Connection, fleet: &Fleet) {
    let info: String = ::redis::cmd("INFO").arg("server").query(connection).unwrap();
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    let mut commands = ::redis::pipe();
    for epoch in
        (0..BUCKETS).map(|bucket| fleet.epoch(bucket)).chain([fleet.ceiling_epoch(), fleet.roll_epoch()])
    {
        commands.cmd("SET").arg(epoch.as_str()).arg(format!("{run_id}:0")).ignore();
    }
    commands.exec(connection).unwrap();
}

/// Where ports begin and end that no process is given without asking for it.
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// A free port of this machine's loopback, another one each time. It lies below those that the kernel gives to outgoing
/// connections, so that none of them takes it before it is used.
pub(crate) fn free_port() -> u16 {
    static N_GIVEN: AtomicU32 = AtomicU32::new(0);
    // Test binaries that run at the same time begin far from each other.
    let first = std::process::id().wrapping_mul(7919);
    for _ in PORTS {
        let nth = first.wrapping_add(N_GIVEN.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let port = u16::try_from(PORTS.start + nth).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free");
}

/// The kernel kills the server when the thread that started it ends, however it ends.
fn command(program: &Path, folder: &Path, port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args([
        "--bind",
        "127.0.0.1",
        "--port",
        &port.to_string(),
    ]);
    command.arg("--unixsocket").arg(folder.join("redis.sock")).arg("--dir").arg(folder);
    command.args(["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Runs a command in a thread that waits until it is told to stop, or the process ended.
fn keep(mut command: Command) -> io::Result<(u32, Keeper)> {
    let (started, pid) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(child.id())));
        let is_kept =
            || stopped.recv_timeout(Duration::from_millis(20)) == Err(mpsc::RecvTimeoutError::Timeout);
        while is_kept() && is_running(&mut child) {}
        let _ = child.kill();
        let _ = child.wait();
    });
    let pid = pid.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok((pid, Keeper { stop: Some(stop), thread: Some(thread) }))
}

fn is_running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// Polls until something is so.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
