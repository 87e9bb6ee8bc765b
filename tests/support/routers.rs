//! A router in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cofferdam_fleet::Fleet;
use cofferdam_proxy::listen;
use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_router::{Before, Listeners, Router, Settings};
use serde_json::Value;

use super::metrics::{Scrape, scrape};
use super::{ANY, eventually, raw};

/// A router with listeners on free ports. Its control tasks run on the test's runtime.
#[derive(Debug)]
pub(crate) struct TestRouter {
    pub(crate) router: Router,
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) probes: SocketAddr,
}

/// Settings for tests: nothing is waited for at the end, and a machine that stands still makes no loss of a connection's age.
pub(crate) fn settings() -> Settings {
    let upstream = UpstreamLimits { aged: Duration::from_secs(60), ..UpstreamLimits::default() };
    Settings { drain_deadline: Duration::from_secs(5), upstream, ..Settings::default() }
}

impl TestRouter {
    /// A router with one worker.
    pub(crate) fn start(text: &str) -> Self {
        Self::with(text, settings(), 1)
    }

    pub(crate) fn with(text: &str, settings: Settings, n_workers: usize) -> Self {
        Self::after(text, settings, n_workers, Before::default()).unwrap()
    }

    /// A router with one worker that looks which file was accepted before, as the command does; the error is what its user reads.
    pub(crate) async fn that_looks(text: &str, settings: Settings) -> Result<Self, String> {
        let before = Before::look(&parse(text), &settings).await.unwrap();
        Self::after(text, settings, 1, before)
    }

    fn after(text: &str, settings: Settings, n_workers: usize, before: Before) -> Result<Self, String> {
        let data = listen::shared(ANY, n_workers).unwrap();
        let (admin, probes) = (listen::one(ANY).unwrap(), listen::one(ANY).unwrap());
        let (at_admin, at_probes) = (admin.local_addr().unwrap(), probes.local_addr().unwrap());
        let listeners = Listeners { data, admin: Some(admin), probes: Some(probes) };
        let router =
            Router::start(parse(text), settings, listeners, before).map_err(|error| error.to_string())?;
        Ok(Self { data: router.data_address(), router, admin: at_admin, probes: at_probes })
    }

    /// Offers another fleet file; the error is what an operator reads.
    pub(crate) async fn reload(&self, text: &str) -> Result<(), String> {
        self.router.reload(parse(text)).await.map_err(|error| error.to_string())
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> raw::Answer {
        raw::ask(self.data, request).await
    }

    pub(crate) async fn metrics(&self) -> Scrape {
        scrape(self.probes).await
    }

    /// An answer of the admin listener.
    pub(crate) async fn admin(&self, path: &str) -> Value {
        let answer = raw::ask(self.admin, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Tells the admin listener something.
    pub(crate) async fn tell(&self, method: &str, path: &str, body: &str) -> raw::Answer {
        tell(self.admin, method, path, body).await
    }

    /// Waits until `n` permits are in use.
    pub(crate) async fn in_flight(&self, n: u32) {
        let what = format!("permits in use are {n}");
        eventually(&what, async || {
            let metrics = self.metrics().await;
            (metrics.sum("cofferdam_limits_in_flight", &[]) == f64::from(n)).then_some(())
        })
        .await;
    }

    /// Waits until `n` requests were admitted in all.
    pub(crate) async fn admitted(&self, n: usize) {
        eventually(&format!("{n} requests are admitted"), async || {
            let metrics = self.metrics().await;
            (metrics.sum("cofferdam_limits_admitted_total", &[]) == n as f64).then_some(())
        })
        .await;
    }

    /// Waits until every permit and every place on a cell is back.
    pub(crate) async fn idle(&self) {
        self.in_flight(0).await;
        eventually("no request on any cell", async || {
            (self.metrics().await.sum("cofferdam_router_cell_in_flight", &[]) == 0.0).then_some(())
        })
        .await;
    }
}

/// Tells an admin listener something.
pub(crate) async fn tell(admin: SocketAddr, method: &str, path: &str, body: &str) -> raw::Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    raw::ask(admin, request).await
}

/// A fleet file's text, which has to be usable.
pub(crate) fn parse(text: &str) -> Fleet {
    Fleet::parse(text, Path::new(".")).unwrap_or_else(|error| panic!("{error}\n{text}")).fleet
}
