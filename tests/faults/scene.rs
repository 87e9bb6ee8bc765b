//! What the faults happen to: a store, two routers with a link of their own to it, an agent and a backend.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;

use crate::backend::Backend;
use crate::support::files::alone;
use crate::support::metrics::scrape;
use crate::support::processes::{Process, free_port, ready};
use crate::support::redis::RedisServer;
use crate::support::redis::cluster::RedisCluster;
use crate::support::relay::Relay;

/// How many requests of a tenant may be in flight, over both routers.
pub(crate) const LIMIT: usize = 20;
pub(crate) const N_ROUTERS: usize = 2;
/// How long the backend holds a request.
pub(crate) const HOLD: Duration = Duration::from_millis(50);

pub(crate) struct Scene {
    pub(crate) store: Store,
    pub(crate) backend: Backend,
    pub(crate) routers: Vec<Router>,
    _agent: Process,
    _folder: TempDir,
}

pub(crate) enum Store {
    One(RedisServer),
    Cluster(RedisCluster),
}

pub(crate) struct Router {
    pub(crate) process: Process,
    pub(crate) data: SocketAddr,
    probes: SocketAddr,
    /// Between it and the store, where that is one server.
    pub(crate) link: Option<Relay>,
}

impl Scene {
    pub(crate) async fn start(with_cluster: bool) -> Self {
        let store = if with_cluster {
            Store::Cluster(RedisCluster::with_replicas(3, 1))
        } else {
            Store::One(RedisServer::start())
        };
        let backend = Backend::start(HOLD).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet.yaml");
        let cell = free_port();
        fs::write(&file, alone(cell, &rest())).unwrap();
        let file = file.to_str().unwrap();
        let (listen, to) = (cell.to_string(), format!("http://{}", backend.address));
        let probes = free_port();
        let at_probes = probes.to_string();
        let arguments = ["agent", "--fleet", file, "--cell", "cell-a", "--listen", &listen, "--backend", &to];
        let arguments = [&arguments[..], &["--probe-listen", &at_probes, "--workers", "1"]].concat();
        let mut agent = Process::start(folder.path(), "agent", &arguments);
        is_ready(&mut agent, probes).await;
        let mut routers = Vec::new();
        for index in 0..N_ROUTERS {
            routers.push(Router::start(&format!("router-{index}"), &store, file, &folder).await);
        }
        Self { store, backend, routers, _agent: agent, _folder: folder }
    }

    /// The store, which is a cluster.
    pub(crate) fn cluster(&self) -> &RedisCluster {
        match &self.store {
            Store::Cluster(cluster) => cluster,
            Store::One(_) => panic!("the store is one server"),
        }
    }

    /// The only server of the store.
    pub(crate) fn redis(&mut self) -> &mut RedisServer {
        match &mut self.store {
            Store::One(server) => server,
            Store::Cluster(_) => panic!("the store is a cluster"),
        }
    }
}

impl Router {
    async fn start(name: &str, store: &Store, file: &str, folder: &TempDir) -> Self {
        let (url, link) = match store {
            Store::One(server) => {
                let relay = Relay::before(([127, 0, 0, 1], server.port()).into()).await;
                (format!("redis://{}", relay.address), Some(relay))
            }
            Store::Cluster(cluster) => (cluster.url(), None),
        };
        let (data, admin, probes) = (free_port(), free_port(), free_port());
        let [listen, admin, at_probes] = [data, admin, probes].map(|address| address.to_string());
        let arguments = ["router", "--fleet", file, "--listen", &listen, "--admin", &admin, "--probe-listen"];
        let arguments = [&arguments[..], &[&at_probes, "--workers", "1", "--store", &url]].concat();
        let mut process = Process::start(folder.path(), name, &arguments);
        is_ready(&mut process, probes).await;
        Self { process, data, probes, link }
    }

    /// Of how many requests it had an answer from the store within 10 ms, and of how many at all: nothing where it does not
    /// say, because it was killed or has no such metric.
    pub(crate) async fn waits(&self) -> Option<(f64, f64)> {
        let is_there = tokio::net::TcpStream::connect(self.probes).await.is_ok();
        let scrape = if is_there { scrape(self.probes).await } else { return None };
        let (buckets, count) =
            ("cofferdam_limits_store_wait_seconds_bucket", "cofferdam_limits_store_wait_seconds_count");
        scrape.has(count).then(|| (scrape.sum(buckets, &["le=\"0.01\""]), scrape.sum(count, &[])))
    }
}

async fn is_ready(process: &mut Process, probes: SocketAddr) {
    if ready(process, probes).await.is_none() {
        panic!("it ended instead of serving:\n{}", process.log());
    }
}

/// One plan for everybody, whose rate nobody reaches; a cell with room for more than any fault lets through.
fn rest() -> String {
    format!(
        "plans: {{ all: {{ sustained: 100k/s, burst: 100k, max_in_flight: {LIMIT} }} }}\n\
         tenant: {{ unknown: all }}\nlimits: {{ routers: {N_ROUTERS} }}\n\
         cell: {{ max_in_flight: 400, tenant_share: 1, classes: {{ default: {{ ceiling: 400, queue: 0 }} }} }}\n"
    )
}
