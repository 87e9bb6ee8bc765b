//! A router and an agent, each a process, before a backend that is one as well.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::program;
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::metrics::{Scrape, scrape};
use crate::support::processes::{Process, RealFleet};

/// Everybody may do much; `tight` may ask once, and then not before the test has ended.
const FLEET: &str = r#"tenant:
  from: [header: { name: x-tenant-id }, host: { pattern: "{tenant}.app.test" }]
  plan_of: { tight: tight }
  unknown: wide
plans:
  wide: { sustained: 1M/s, burst: 1M, max_in_flight: 2000 }
  tight: { sustained: 1/h, burst: 1, max_in_flight: 10 }
cell: { max_in_flight: 2000, tenant_share: 1, classes: { default: {} } }
routes:
  - { match: { path: /test.Kinds/Late }, class: default, timeout: 500ms }
  - { match: { path: / }, class: default }"#;

/// A router, an agent and a backend.
#[derive(Debug)]
pub(crate) struct Front {
    fleet: RealFleet,
    backend: Backend,
}

/// A backend's process, which ends where this is dropped.
#[derive(Debug)]
#[allow(dead_code, reason = "they are held, and dropped")]
enum Backend {
    Sample(Process, TempDir),
    Python(Python),
    Ended,
}

/// A process of a Python program that says where it listens.
#[derive(Debug)]
struct Python {
    child: Child,
    folder: TempDir,
}

impl Front {
    /// Before the sample backend, which stands on axum.
    pub(crate) async fn sample() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path(), "backend", &["backend", "--listen", "127.0.0.1:0"]);
        let address = eventually("the sample backend listens", async || listens(&process.log())).await;
        Self::before(Backend::Sample(process, folder), &format!("http://{address}")).await
    }

    /// Before one of the programs in `backends`.
    pub(crate) async fn python(name: &str) -> Self {
        let (python, url) = Python::start(name, false).await;
        Self::before(Backend::Python(python), &url).await
    }

    /// The same, on a Unix socket.
    pub(crate) async fn python_on_a_unix_socket(name: &str) -> Self {
        let (python, url) = Python::start(name, true).await;
        Self::before(Backend::Python(python), &url).await
    }

    async fn before(backend: Backend, url: &str) -> Self {
        let file = |cells: &[SocketAddr]| alone(cells[0], FLEET);
        let fleet = RealFleet::of(&[vec!["agent", "--backend", url]], &["--workers", "2"], file).await;
        Self { fleet, backend }
    }

    /// Ends the backend; the agent stays.
    pub(crate) fn end_backend(&mut self) {
        self.backend = Backend::Ended;
    }

    /// Where a client finds `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.fleet.data)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.fleet.data
    }

    pub(crate) async fn metrics(&self) -> Scrape {
        scrape(self.fleet.probes).await
    }

    /// Waits until the router holds no request.
    pub(crate) async fn idle(&self) {
        self.in_flight(0.0).await;
    }

    /// Waits until the router holds `n` requests.
    pub(crate) async fn in_flight(&self, n: f64) {
        eventually(&format!("{n} requests in the router"), async || {
            let metrics = self.metrics().await;
            let held = ["cofferdam_limits_in_flight", "cofferdam_router_cell_in_flight"];
            held.iter().all(|name| metrics.sum(name, &[]) == n).then_some(())
        })
        .await;
    }

    /// How many connections clients have to the router, as the kernel sees it.
    pub(crate) fn n_connections(&self) -> usize {
        let port = format!(":{:04X}", self.fleet.data.port());
        // Those that only wait for late packets belong to no process.
        let (listening, time_wait) = ("0A", "06");
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().skip(1).collect::<Vec<_>>());
        rows.filter(|row| row[0].ends_with(&port) && ![listening, time_wait].contains(&row[2])).count()
    }

    /// The most bytes of memory that the router ever had.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.fleet.router.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    pub(crate) fn signal_router(&self, signal: Signal) {
        self.fleet.router.signal(signal);
    }
}

/// The address that a process's log names as its own.
fn listens(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once("listen=")?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Python {
    /// Starts a program, and answers what an agent calls it.
    async fn start(name: &str, on_unix_socket: bool) -> (Self, String) {
        let interpreter = program::interpreter().await;
        let folder = tempfile::tempdir().unwrap();
        let output = |name: &str| File::create(folder.path().join(name)).unwrap();
        let socket = on_unix_socket.then(|| folder.path().join("socket"));
        let child = Command::new(interpreter)
            .arg("-B")
            .arg(Path::new(program::FOLDER).join("backends").join(name))
            .args(socket)
            .stdin(Stdio::piped())
            .stdout(output("url"))
            .stderr(output("log"))
            .spawn()
            .unwrap();
        let mut python = Self { child, folder };
        let url = eventually(name, async || python.url()).await;
        (python, url)
    }

    fn url(&mut self) -> Option<String> {
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap();
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the backend ended with {status}: {}", read("log"));
        }
        read("url").strip_suffix('\n').map(str::to_owned)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        eprintln!("{}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
    }
}
