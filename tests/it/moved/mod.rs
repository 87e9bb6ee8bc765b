//! Moves of a tenant from two cells to two others, on real routers: no request is lost, none is served on the new cells while one
//! is in flight on the old ones, and whoever dies in the middle of it leaves the tenant on one pair or the other.

mod command;
mod deaths;
mod handover;
mod load;
mod overdue;
mod refused;
mod target;
mod undone;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam_limits::redis::Fleet;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::eventually;
use crate::support::files::{cell_id, in_states};
use crate::support::metrics::scrape;
use crate::support::processes::RealRouter;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::tell;
use crate::support::scripted::{Play, Scripted, ok};
use crate::tunnels::SWITCH;

/// `acme` is on the first two of four cells, and `globex` as well.
const REST: &str = "
tenant: { unknown: free }
plans: { free: { sustained: 1M/s, burst: 1M, max_in_flight: 10k } }
placement: { pins: { acme: [cell-a, cell-b], globex: [cell-a, cell-b] } }
";

/// Where `acme` is moved, why, and by whom, in a request's words.
const TO_C_AND_D: &str = r#""to": ["cell-c", "cell-d"], "reason": "a test", "author": "ops""#;

/// When a request of `acme` was on which cell.
#[derive(Debug, Clone, Copy)]
struct Stay {
    cell: usize,
    begun: Instant,
    /// At least until then.
    ended: Instant,
}

/// Cells, a store, and routers that are processes.
struct Stage {
    folder: TempDir,
    server: RedisServer,
    cells: Vec<Scripted>,
    addresses: Vec<SocketAddr>,
    stays: Arc<Mutex<Vec<Stay>>>,
    routers: Vec<RealRouter>,
}

impl Stage {
    async fn start(n_routers: usize) -> Self {
        Self::with(n_routers, &format!("limits: {{ routers: {n_routers} }}\n")).await
    }

    async fn with(n_routers: usize, more: &str) -> Self {
        let (folder, server) = (tempfile::tempdir().unwrap(), RedisServer::start());
        server.begin_epochs(&Fleet::parse("test").unwrap());
        let stays = Arc::<Mutex<Vec<Stay>>>::default();
        let mut cells = Vec::new();
        for cell in 0..4 {
            cells.push(Scripted::start(by_path(cell, Arc::clone(&stays))).await);
        }
        let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
        std::fs::write(
            folder.path().join("fleet.yaml"),
            in_states(1, &addresses, &[], &format!("{REST}{more}")),
        )
        .unwrap();
        let mut stage = Self { folder, server, cells, addresses, stays, routers: Vec::new() };
        for n in 0..n_routers {
            let router = stage.router(&format!("router-{n}")).await;
            stage.routers.push(router);
        }
        stage
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fleet.yaml")
    }

    async fn router(&self, name: &str) -> RealRouter {
        RealRouter::start(name, &self.file(), &["--store", &self.server.url(), "--log", "debug"], &[]).await
    }

    /// Has a router take another fleet file.
    async fn reload(&self, router: usize, revision: u64, states: &[&str], rest: &str) {
        std::fs::write(self.file(), in_states(revision, &self.addresses, states, rest)).unwrap();
        self.routers[router].process.signal(Signal::HUP);
        eventually("another fleet file", async || {
            let fleet = self.ask(router, "/fleet").await;
            assert_eq!(fleet["last_reload_error"], Value::Null, "{fleet:#}");
            (fleet["revision"] == revision).then_some(())
        })
        .await;
    }

    /// What a router's admin listener answers.
    async fn ask(&self, router: usize, path: &str) -> Value {
        let answer = tell(self.routers[router].admin, "GET", path, "").await;
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Begins to move `acme` to the other two cells, told to this router.
    async fn begin(&self, router: usize, timeout: &str) -> Value {
        let body = format!(r#"{{{TO_C_AND_D}, "timeout": "{timeout}", "for": "1h"}}"#);
        eventually("a move that begins", async || {
            let answer = tell(self.routers[router].admin, "PUT", "/tenants/acme/move", &body).await;
            // The routers have just started, and not all may have signed in.
            let too_early = answer.status() == 503 || answer.text().contains("are heard of");
            assert!(answer.status() == 200 || too_early, "{answer:?}");
            (answer.status() == 200).then(|| serde_json::from_slice(&answer.body).unwrap())
        })
        .await
    }

    /// What a router says of the move.
    async fn status(&self, router: usize) -> Value {
        self.ask(router, "/tenants/acme/move").await
    }

    /// Waits until this router has said that it holds the tenant's requests back.
    async fn holds(&self, router: usize) {
        self.until(router, "it holds", |status| {
            status["move"]["routers"].as_object().is_some_and(|all| !all.is_empty())
        })
        .await;
    }

    /// Waits until so many requests at least wait at this router.
    async fn waiting(&self, router: usize, n: u32) {
        eventually("requests that wait", async || {
            let waiting = scrape(self.routers[router].probes).await.sum("cofferdam_router_held", &[]);
            (waiting >= f64::from(n)).then_some(())
        })
        .await;
    }

    /// Waits until this router says that `is` so.
    async fn until(&self, router: usize, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || Some(self.status(router).await).filter(|status| is(status))).await
    }

    /// Waits until the move has ended, as this router says, and was `outcome`.
    async fn ended(&self, router: usize, outcome: &str) -> Value {
        let status = self.until(router, "the move's end", |status| {
            status["move"].is_null() && status["last_move"].is_object()
        });
        let status = status.await;
        assert_eq!(status["last_move"]["outcome"], outcome, "{status:#}");
        let shard = if outcome == "done" { ["cell-c", "cell-d"] } else { ["cell-a", "cell-b"] };
        assert_eq!(status["shard"], json!(shard), "{status:#}");
        status
    }

    /// The cell that serves a tenant.
    async fn served(&self, router: usize, tenant: &str) -> String {
        let answer = raw::ask(self.routers[router].data, get("/", tenant)).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        answer.text()
    }

    /// A request of `acme` that is in flight for so long at least.
    async fn long(&self, router: usize, lasting: Duration) -> raw::Client {
        let mut client = raw::Client::connect(self.routers[router].data).await;
        client.send(get(&format!("/slow/{}", lasting.as_millis()), "acme")).await;
        eventually("a request in flight", async || {
            (self.status(router).await["in_flight"] == 1).then_some(())
        })
        .await;
        client
    }

    /// That no request of `acme` was on the new cells while another was on the old ones.
    fn never_on_both(&self) {
        let stays = self.stays.lock().unwrap();
        let last_old = stays.iter().filter(|stay| stay.cell < 2).map(|stay| stay.ended).max();
        let first_new = stays.iter().filter(|stay| stay.cell >= 2).map(|stay| stay.begun).min();
        let (last_old, first_new) = (last_old.unwrap(), first_new.unwrap());
        assert!(last_old <= first_new, "by {:?}", last_old - first_new);
    }
}

/// A request of `acme` at the first router whose answer has begun, and does not end before the client is dropped.
async fn hangs(stage: &Stage) -> raw::Client {
    let mut client = raw::Client::connect(stage.routers[0].data).await;
    client.send(get("/endless", "acme")).await;
    assert_eq!(client.head().await.second_word(), "200");
    client
}

/// A cell that answers with its name, after a while where the path says so, and remembers when `acme` was there.
fn by_path(
    cell: usize,
    stays: Arc<Mutex<Vec<Stay>>>,
) -> impl Fn(&crate::support::scripted::Seen) -> Play + Send + Sync {
    move |seen| {
        let path = seen.head.second_word();
        let late = match path.split_once("/slow/") {
            Some((_, ms)) => Duration::from_millis(ms.parse().unwrap()),
            // A little, so that there is always something in flight.
            None => Duration::from_millis(3),
        };
        match path {
            "/hang" => return Play::Hang,
            "/tunnel" => return Play::Answer(SWITCH.into()),
            // A head, and a body that never ends.
            "/endless" => return Play::Answer(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx".to_vec()),
            _ => {}
        }
        if seen.head.field("x-tenant-id") == Some("acme") {
            let begun = Instant::now();
            stays.lock().unwrap().push(Stay { cell, begun, ended: begun + late });
        }
        Play::Late(late, ok(&cell_id(cell)))
    }
}
