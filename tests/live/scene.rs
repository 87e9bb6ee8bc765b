//! The processes: one Redis, one agent before one backend, and routers that share the limits.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_limits::redis::Fleet;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::backend::Backend;
use crate::kind::Kind;
use crate::lanes::Routers;
use crate::support::eventually;
use crate::support::files::alone;
use crate::support::metrics::scrape;
use crate::support::processes::{Process, RealRouter, free_port, on_free_ports, ready};
use crate::support::redis::RedisServer;

/// Far above what an answer of the store takes, so that a busy machine is no store that is away.
const BUDGET: &str = "200ms";

pub(crate) struct Scene {
    pub(crate) backend: Backend,
    pub(crate) addresses: Routers,
    routers: Vec<RealRouter>,
    /// Those that were asked to leave, until the scene ends.
    leaving: Vec<RealRouter>,
    redis: RedisServer,
    file: PathBuf,
    n_started: usize,
    _agent: Process,
    _folder: TempDir,
}

impl Scene {
    pub(crate) async fn start(kind: Kind, n_routers: usize) -> Self {
        let redis = RedisServer::start();
        redis.begin_epochs(&Fleet::parse("test").unwrap());
        let backend = Backend::start().await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet.yaml");
        let agent = on_free_ports(async || {
            let (cell, probes) = (free_port(), free_port());
            fs::write(&file, alone(cell, &kind.rest_of_file())).unwrap();
            let (listen, at_probes) = (cell.to_string(), probes.to_string());
            let to = format!("http://{}", backend.address);
            let arguments =
                ["agent", "--fleet", file.to_str().unwrap(), "--cell", "cell-a", "--listen", &listen];
            let arguments = [&arguments[..], &["--backend", &to, "--probe-listen", &at_probes]].concat();
            let mut agent = Process::start(folder.path(), "agent", &arguments);
            ready(&mut agent, probes).await.map(|()| agent)
        })
        .await;
        let mut scene = Self {
            backend,
            addresses: Arc::new(Mutex::new(Vec::new())),
            routers: Vec::new(),
            leaving: Vec::new(),
            redis,
            file,
            n_started: 0,
            _agent: agent,
            _folder: folder,
        };
        for _ in 0..n_routers {
            scene.join().await;
        }
        scene.all_know_of_all().await;
        scene
    }

    pub(crate) fn n_routers(&self) -> usize {
        self.routers.len()
    }

    /// One more router takes requests from now on.
    pub(crate) async fn join(&mut self) {
        self.n_started += 1;
        let (name, url) = (format!("router-{}", self.n_started), self.redis.url());
        let flags = ["--store", &url, "--store-budget", BUDGET];
        let router = RealRouter::start(&name, &self.file, &flags, &[]).await;
        self.addresses.lock().unwrap().push(router.data);
        self.routers.push(router);
    }

    /// The first router is sent nothing any more, and ends once what is in flight there has.
    pub(crate) async fn leave(&mut self) {
        let router = self.routers.remove(0);
        self.addresses.lock().unwrap().remove(0);
        // What was about to be sent there is on its way by then.
        sleep(Duration::from_millis(300)).await;
        router.process.signal(Signal::TERM);
        self.leaving.push(router);
    }

    /// Waits until every router has seen all others.
    async fn all_know_of_all(&self) {
        for router in &self.routers {
            eventually("each router to know of all others", async || {
                let sessions = scrape(router.probes).await.sum("cofferdam_store_sessions", &[]);
                (sessions == self.routers.len() as f64).then_some(())
            })
            .await;
        }
    }
}
