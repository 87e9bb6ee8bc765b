//! Real processes of the command. None outlives its test: dropping one kills it, and its standard input closes even
//! where the test is killed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::files::cell_id;
use super::{ANY, eventually, raw, redis};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_cofferdam");

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    log: PathBuf,
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_into(Stdio::piped(), arguments)
}

/// The same, with its standard output somewhere else.
pub(crate) fn run_into(stdout: impl Into<Stdio>, arguments: &[&str]) -> Output {
    let mut command = Command::new(EXE);
    command.args(arguments).env_remove("COFFERDAM_FLEET").stdin(Stdio::null());
    command.stdout(stdout).output().unwrap()
}

/// The same for words that are told to a router's admin listener, beside a test's own work.
pub(crate) async fn run_at(admin: SocketAddr, words: &str) -> Output {
    let words = format!("{words} --admin http://{admin}");
    let run = move || run(&words.split(' ').collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// A port that was free a moment ago. Who uses it must be ready to find it taken.
pub(crate) fn free_port() -> SocketAddr {
    SocketAddr::new(ANY.ip(), redis::free_port())
}

/// What `start` makes of free ports. One can be taken between its choice and its use; then everything is chosen anew.
pub(crate) async fn on_free_ports<T>(mut start: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..5 {
        if let Some(started) = start().await {
            return started;
        }
    }
    panic!("not started in five attempts");
}

impl Process {
    /// Starts the command; its log goes to a file of `folder`.
    pub(crate) fn start(folder: &Path, name: &str, arguments: &[impl AsRef<OsStr>]) -> Self {
        Self::logged(folder, name, Command::new(EXE), arguments)
    }

    /// The same with these variables.
    pub(crate) fn start_with(
        folder: &Path,
        name: &str,
        arguments: &[impl AsRef<OsStr>],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(EXE);
        command.envs(variables.iter().copied());
        Self::logged(folder, name, command, arguments)
    }

    /// The same where the process begins with few open files, and may have more.
    pub(crate) fn start_with_files(
        folder: &Path,
        name: &str,
        (few, most): (u32, u32),
        arguments: &[&str],
    ) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={few}:{most}")).arg(EXE);
        Self::logged(folder, name, command, arguments)
    }

    /// The same by a command that runs it in the end, with its arguments.
    pub(crate) fn start_as(folder: &Path, name: &str, command: Command) -> Self {
        Self::logged(folder, name, command, &[] as &[&str])
    }

    fn logged(folder: &Path, name: &str, mut command: Command, arguments: &[impl AsRef<OsStr>]) -> Self {
        let log = folder.join(format!("{name}.log"));
        command.args(arguments).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Self::spawn(command, log)
    }

    /// The same, with two sockets that are open already, passed as systemd passes them: clients' and probes'.
    pub(crate) fn start_on(
        folder: &Path,
        name: &str,
        arguments: &[impl AsRef<OsStr>],
        sockets: [&dyn AsFd; 2],
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        let script = "exec 3<&1 4<&2 1>/dev/null 2>\"$0\"\nLISTEN_PID=$$ exec \"$@\"";
        let [data, probes] = sockets.map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&log).arg(EXE).args(arguments);
        command.envs([("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "data:probes")]).stdout(data).stderr(probes);
        Self::spawn(command, log)
    }

    fn spawn(mut command: Command, log: PathBuf) -> Self {
        let child = command.arg("--until-stdin-closes").stdin(Stdio::piped()).spawn().unwrap();
        Self { child, log }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the process's own end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let status = eventually("a process's end", || std::future::ready(self.ended())).await;
        eprintln!("{}", self.log());
        status
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A router and cells, each a process of its own.
#[derive(Debug)]
pub(crate) struct RealFleet {
    pub(crate) folder: TempDir,
    pub(crate) router: Process,
    /// The router's, its flags aside.
    arguments: Vec<String>,
    pub(crate) cells: Vec<Process>,
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) probes: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl RealFleet {
    /// Starts `n_cells` cells and a router with these flags, where `FOLDER` stands for the fleet's own. `file` makes the fleet file of the cells' addresses.
    pub(crate) async fn start(
        n_cells: usize,
        flags: &[&str],
        file: impl Fn(&[SocketAddr]) -> String,
    ) -> Self {
        Self::of(&vec![vec!["cell"]; n_cells], flags, file).await
    }

    /// The same with cells that are processes of these subcommands: `cell`, or `agent --backend URL`.
    pub(crate) async fn of(
        cells: &[Vec<&str>],
        flags: &[&str],
        file: impl Fn(&[SocketAddr]) -> String,
    ) -> Self {
        on_free_ports(async || Self::try_start(cells, flags, &file).await).await
    }

    async fn try_start(
        commands: &[Vec<&str>],
        flags: &[&str],
        file: &impl Fn(&[SocketAddr]) -> String,
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let addresses: Vec<_> = commands.iter().map(|_| free_port()).collect();
        let path = folder.path().join("fleet.yaml");
        fs::write(&path, file(&addresses)).unwrap();
        let path = path.to_str().unwrap();
        let mut cells = Vec::new();
        for (index, (address, command)) in addresses.iter().zip(commands).enumerate() {
            let (id, address, probes) = (cell_id(index), address.to_string(), free_port());
            let at_probes = probes.to_string();
            let arguments = ["--fleet", path, "--cell", &id, "--listen", &address, "--probe-listen"];
            let arguments = [command, &arguments[..], &[at_probes.as_str(), "--workers", "1"]].concat();
            let mut cell = Process::start(folder.path(), &id, &arguments);
            ready(&mut cell, probes).await?;
            cells.push(cell);
        }
        let (data, admin, probes) = (free_port(), free_port(), free_port());
        let texts = [data, admin, probes].map(|address| address.to_string());
        let arguments = ["router", "--fleet", path, "--listen", &texts[0], "--admin", &texts[1]];
        let arguments = [&arguments[..], &["--probe-listen", &texts[2]]].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let mut router = Process::start(folder.path(), "router", &with(&arguments, folder.path(), flags));
        ready(&mut router, probes).await?;
        Some(Self { folder, router, arguments, cells, data, admin, probes, addresses })
    }

    /// Starts another router with the first one's addresses, and these flags.
    pub(crate) fn start_successor(&self, name: &str, flags: &[&str]) -> Process {
        let folder = self.folder.path();
        Process::start(folder, name, &with(&self.arguments, folder, flags))
    }

    /// Starts another router at the first one's data port, with everything else of its own.
    pub(crate) fn start_second_router(&self) -> Process {
        let file = self.folder.path().join("fleet.yaml");
        let [data, admin, probes] = [self.data, free_port(), free_port()].map(|address| address.to_string());
        let arguments = ["router", "--fleet", file.to_str().unwrap(), "--workers", "2", "--listen", &data];
        let arguments = [&arguments[..], &["--admin", &admin, "--probe-listen", &probes]].concat();
        Process::start(self.folder.path(), "second", &arguments)
    }

    /// Writes the fleet file anew.
    pub(crate) fn write(&self, text: &str) {
        fs::write(self.folder.path().join("fleet.yaml"), text).unwrap();
    }
}

/// A router by itself, one of several.
#[derive(Debug)]
pub(crate) struct RealRouter {
    pub(crate) process: Process,
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) probes: SocketAddr,
}

impl RealRouter {
    /// Starts a router with this fleet file, these flags and variables; its log goes to the file's folder.
    pub(crate) async fn start(name: &str, file: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        on_free_ports(async || {
            let [data, admin, probes] = [free_port(), free_port(), free_port()];
            let at = [data, admin, probes].map(|address| address.to_string());
            let fixed = ["router", "--fleet", file.to_str().unwrap(), "--workers", "2", "--listen", &at[0]];
            let arguments = [&fixed[..], &["--admin", &at[1], "--probe-listen", &at[2]], flags].concat();
            let folder = file.parent().unwrap();
            let mut process = Process::start_with(folder, name, &arguments, variables);
            ready(&mut process, probes).await?;
            Some(Self { process, data, admin, probes })
        })
        .await
    }
}

/// Arguments, and flags in which `FOLDER` is replaced.
fn with(arguments: &[String], folder: &Path, flags: &[&str]) -> Vec<String> {
    let flags = flags.iter().map(|flag| flag.replace("FOLDER", folder.to_str().unwrap()));
    arguments.iter().cloned().chain(flags).collect()
}

/// Waits until a process is ready; `None` where it ended instead.
pub(crate) async fn ready(process: &mut Process, probes: SocketAddr) -> Option<()> {
    eventually("a process that is ready", async || {
        if process.ended().is_some() {
            return Some(None);
        }
        let open = tokio::net::TcpStream::connect(probes).await.is_ok();
        (open && probe(probes, "/readyz").await == 200).then_some(Some(()))
    })
    .await
}

/// The status of an answer of a probe listener.
pub(crate) async fn probe(probes: SocketAddr, path: &str) -> u16 {
    raw::ask(probes, format!("GET {path} HTTP/1.1\r\nhost: probe\r\n\r\n")).await.status()
}
