//! A load of a fixed rate: a request is sent when its time has come, whatever became of those before.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

type Clients = Client<HttpConnector, Empty<Bytes>>;

/// What became of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) router: usize,
    pub(crate) tenant: &'static str,
    pub(crate) sent: Instant,
    /// Nothing where there was no whole answer.
    pub(crate) status: Option<u16>,
}

/// Streams of requests until they are stopped.
pub(crate) struct Load {
    streams: JoinSet<()>,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
    silent: Silent,
}

/// Who sends nothing for a while: a tenant and a router.
type Silent = Arc<Mutex<Option<(&'static str, usize)>>>;

impl Load {
    /// So many requests a second of each tenant to each router.
    pub(crate) fn start(routers: &[SocketAddr], rates: &[(&'static str, u32)]) -> Self {
        let (mut streams, outcomes) = (JoinSet::new(), Arc::<Mutex<Vec<Outcome>>>::default());
        let silent = Silent::default();
        for (router, address) in routers.iter().enumerate() {
            for (tenant, rate) in rates {
                let (outcomes, silent) = (Arc::clone(&outcomes), Arc::clone(&silent));
                streams.spawn(stream((router, *address), tenant, *rate, outcomes, silent));
            }
        }
        Self { streams, outcomes, silent }
    }

    /// Has `who` send nothing until another one is named.
    pub(crate) fn silence(&self, who: Option<(&'static str, usize)>) {
        *self.silent.lock().unwrap() = who;
    }

    /// Stops it, and hands back what became of everything that is not on its way.
    pub(crate) async fn end(mut self) -> Vec<Outcome> {
        self.streams.shutdown().await;
        std::mem::take(&mut *self.outcomes.lock().unwrap())
    }
}

async fn stream(
    (router, address): (usize, SocketAddr),
    tenant: &'static str,
    rate: u32,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
    silent: Silent,
) {
    let clients: Clients = Client::builder(TokioExecutor::new()).build_http();
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut requests = JoinSet::new();
    loop {
        ticks.tick().await;
        if *silent.lock().unwrap() == Some((tenant, router)) {
            continue;
        }
        let (clients, outcomes) = (clients.clone(), Arc::clone(&outcomes));
        requests.spawn(async move {
            let sent = Instant::now();
            let status = timeout(PATIENCE, ask(&clients, address, tenant)).await.ok().flatten();
            outcomes.lock().unwrap().push(Outcome { router, tenant, sent, status });
        });
        while requests.try_join_next().is_some() {}
    }
}

async fn ask(clients: &Clients, address: SocketAddr, tenant: &str) -> Option<u16> {
    let request = Request::get(format!("http://{address}/")).header("x-tenant-id", tenant);
    let answer = clients.request(request.body(Empty::new()).ok()?).await.ok()?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await.ok()?;
    Some(status)
}
