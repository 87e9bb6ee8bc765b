//! A router and real agents in this process, in front of backends that are scripted by path.

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam_agent as agent;
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_router::Settings;

use super::files::{cell_id, fleet};
use super::metrics::{Scrape, scrape};
use super::routers::{TestRouter, parse, settings};
use super::scripted::{Play, Scripted, ok};
use super::{ANY, eventually};

/// A router and its cells.
#[derive(Debug)]
pub(crate) struct TestFleet {
    pub(crate) router: TestRouter,
    /// The fleet file, for routers beside this one.
    pub(crate) text: String,
    pub(crate) cells: Vec<TestCell>,
}

/// An agent and the backend behind it.
#[derive(Debug)]
pub(crate) struct TestCell {
    pub(crate) backend: Scripted,
    /// Where the agent takes requests.
    pub(crate) address: SocketAddr,
    pub(crate) probes: SocketAddr,
    /// Where drills are begun.
    pub(crate) admin: SocketAddr,
    agent: agent::Running,
}

impl TestFleet {
    /// A fleet of two cells with these further sections in its file.
    pub(crate) async fn start(rest: &str) -> Self {
        Self::with(rest, false, Self::by_path(2).await, BodyLimits::default()).await
    }

    /// The same, with the cells' probes in the file.
    pub(crate) async fn probed(rest: &str) -> Self {
        Self::of(2, rest).await
    }

    /// The same, of so many cells.
    pub(crate) async fn of(n_cells: usize, rest: &str) -> Self {
        Self::with(rest, true, Self::by_path(n_cells).await, BodyLimits::default()).await
    }

    /// The same without probes, before these backends.
    pub(crate) async fn before(rest: &str, backends: [Scripted; 2]) -> Self {
        Self::sized(rest, backends, BodyLimits::default()).await
    }

    /// The same, with these bounds on bodies at both hops.
    pub(crate) async fn sized(rest: &str, backends: [Scripted; 2], body: BodyLimits) -> Self {
        Self::with(rest, false, backends.into(), body).await
    }

    /// The same with probes.
    pub(crate) async fn probed_before(rest: &str, backends: [Scripted; 2]) -> Self {
        Self::with(rest, true, backends.into(), BodyLimits::default()).await
    }

    async fn by_path(n: usize) -> Vec<Scripted> {
        let mut backends = Vec::new();
        for index in 0..n {
            backends.push(Scripted::start(by_path(&cell_id(index))).await);
        }
        backends
    }

    async fn with(rest: &str, probed: bool, backends: Vec<Scripted>, body: BodyLimits) -> Self {
        let socket = |_: &Scripted| (listen::one(ANY).unwrap(), listen::one(ANY).unwrap());
        let sockets: Vec<_> = backends.iter().map(socket).collect();
        let addresses: Vec<_> = sockets.iter().map(|(data, _)| data.local_addr().unwrap()).collect();
        let mut text = fleet(&addresses, rest);
        for (data, probes) in sockets.iter().filter(|_| probed) {
            let (url, probe) = (data.local_addr().unwrap(), probes.local_addr().unwrap());
            let url = format!("url: \"http://{url}\"");
            text = text.replace(&url, &format!("{url}, probe: \"http://{probe}\""));
        }
        let mut cells = Vec::new();
        for (index, ((data, probes), backend)) in sockets.into_iter().zip(backends).enumerate() {
            cells.push(TestCell::start(index, &text, data, probes, backend, body));
        }
        let settings = Settings { body, ..settings() };
        Self { router: TestRouter::with(&text, settings, 1), text, cells }
    }

    /// Waits until nothing holds a permit or a place anywhere.
    pub(crate) async fn idle(&self) {
        self.router.idle().await;
        for cell in &self.cells {
            eventually("no place in use", async || (cell.in_use("").await == 0.0).then_some(())).await;
        }
    }
}

impl TestCell {
    fn start(
        index: usize,
        text: &str,
        data: std::net::TcpListener,
        probes: std::net::TcpListener,
        backend: Scripted,
        body: BodyLimits,
    ) -> Self {
        let name = cell_id(index);
        let origin = format!("http://{}", backend.address).parse().unwrap();
        let usual = agent::Settings::new(CellId::parse(&name).unwrap(), origin);
        let settings = agent::Settings {
            body,
            drain_grace: Duration::ZERO,
            drain_deadline: Duration::from_secs(4),
            upstream: UpstreamLimits { aged: Duration::from_secs(60), ..usual.upstream },
            ..usual
        };
        let (address, at_probes) = (data.local_addr().unwrap(), probes.local_addr().unwrap());
        let admin = listen::one(ANY).unwrap();
        let at_admin = admin.local_addr().unwrap();
        let listeners = agent::Listeners { data: vec![data], probes: Some(probes), admin: Some(admin) };
        let agent = agent::Agent::start(&parse(text), settings, listeners).unwrap();
        Self { backend, address, probes: at_probes, admin: at_admin, agent }
    }

    /// The agent drains, and cuts what is left after four seconds.
    pub(crate) async fn leave(self) {
        self.agent.shutdown().await;
    }

    /// Has the agent take another fleet file.
    pub(crate) fn reload(&self, text: &str) {
        self.agent.reload(parse(text)).unwrap();
    }

    pub(crate) async fn metrics(&self) -> Scrape {
        scrape(self.probes).await
    }

    /// The places that a class holds; every class where `class` is empty.
    pub(crate) async fn in_use(&self, class: &str) -> f64 {
        let label = format!("class=\"{class}");
        self.metrics().await.sum("cofferdam_agent_places_in_use", &[&label])
    }
}

/// `/hang` is never answered; `/hold` once it is let go; `/slow/N` after N milliseconds; everything else at once, with the backend's name.
fn by_path(name: &str) -> impl Fn(&super::scripted::Seen) -> Play + Send + Sync + 'static {
    let answer = ok(name);
    move |seen| {
        let path = seen.head.second_word();
        match path.split_once("/slow/") {
            Some((_, ms)) => Play::Late(Duration::from_millis(ms.parse().unwrap()), answer.clone()),
            None if path.contains("/hang") => Play::Hang,
            None if path.contains("/hold") => Play::Hold(answer.clone()),
            None => Play::Answer(answer.clone()),
        }
    }
}
