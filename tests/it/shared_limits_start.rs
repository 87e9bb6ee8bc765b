//! A router that starts: it serves once the store has answered, or has had its time to, and admits nothing of its own before.

use std::time::{Duration, Instant};

use cofferdam_limits::redis::Fleet;
use cofferdam_router::{Settings, SharedStore};

use crate::support::files::alone;
use crate::support::processes::probe;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::relay::{Relay, Way, Weather};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};
use crate::support::{PATIENCE, eventually};

/// Requests of a tenant in flight.
const LIMIT: usize = 6;

async fn cell() -> Scripted {
    Scripted::start(|_| Play::Hold(ok("held"))).await
}

fn text(cell: &Scripted, more: &str) -> String {
    let plan = format!("{{ sustained: 1k/s, burst: 2000, max_in_flight: {LIMIT} }}");
    alone(cell.address, &format!("plans: {{ test: {plan} }}\ntenant: {{ unknown: test }}\n{more}"))
}

fn start(text: &str, url: &str, first_answer_wait: Duration) -> TestRouter {
    let store = Some(SharedStore { endpoint: url.parse().unwrap(), budget: PATIENCE });
    TestRouter::with(text, Settings { store, first_answer_wait, ..settings() }, 1)
}

async fn ready(router: &TestRouter) {
    eventually("a router that is ready", async || {
        (probe(router.probes, "/readyz").await == 200).then_some(())
    })
    .await;
}

/// Requests on their way to a router.
async fn send(router: &TestRouter, n: usize) -> Vec<raw::Client> {
    let mut clients = Vec::new();
    for _ in 0..n {
        let mut client = raw::Client::connect(router.data).await;
        client.send(get("/", "acme")).await;
        clients.push(client);
    }
    clients
}

async fn reached(cell: &Scripted, n: usize) {
    eventually("requests at the cell", async || (cell.seen().len() == n).then_some(())).await;
}

/// With six in flight at the first router, nine to twelve were in flight at the cell until the store had answered the second.
#[tokio::test]
async fn a_router_that_starts_admits_nothing_before_the_store_has_answered() {
    for more in ["", "limits: { routers: 2 }\n"] {
        let cell = cell().await;
        let redis = RedisServer::start();
        redis.begin_epochs(&Fleet::parse("test").unwrap());
        let text = text(&cell, more);
        let first = start(&text, &redis.url(), PATIENCE);
        ready(&first).await;
        let _held = send(&first, LIMIT).await;
        reached(&cell, LIMIT).await;
        let link = Relay::before(([127, 0, 0, 1], redis.port()).into()).await;
        link.set(Weather::Held(Way::Both));
        let second = start(&text, &format!("redis://{}", link.address), PATIENCE);
        let mut clients = send(&second, LIMIT).await;
        // The probe listener has a thread of its own: it answers, and the data listener's queue waits.
        assert_eq!(probe(second.probes, "/readyz").await, 503);
        assert_eq!(probe(second.probes, "/healthz").await, 200);
        link.set(Weather::Clear);
        for client in &mut clients {
            let answer = client.answer().await;
            assert_eq!((answer.status(), answer.problem().as_str()), (429, "tenant_concurrency"), "{more}");
        }
        ready(&second).await;
        assert_eq!(cell.seen().len(), LIMIT, "{more}");
    }
}

/// Where the store is away for a router that starts, its share decides after a while, as `on_store_failure` says.
#[tokio::test]
async fn a_router_that_starts_without_its_store_serves_after_a_while() {
    let wait = Duration::from_millis(300);
    let (locked, open) = (RedisServer::start(), RedisServer::start());
    let password = redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("right").clone();
    password.exec(&mut locked.connect()).unwrap();
    let silent = Relay::before(([127, 0, 0, 1], open.port()).into()).await;
    silent.set(Weather::Silent);
    for url in [
        "redis://127.0.0.1:1".to_owned(),
        format!("redis://:wrong@127.0.0.1:{}", locked.port()),
        format!("redis://{}", silent.address),
    ] {
        let cell = cell().await;
        let begun = Instant::now();
        let router = start(&text(&cell, "limits: { routers: 2 }\n"), &url, wait);
        let mut clients = send(&router, LIMIT).await;
        reached(&cell, LIMIT / 2).await;
        assert!(begun.elapsed() >= wait, "{url}: {:?}", begun.elapsed());
        ready(&router).await;
        cell.release(LIMIT);
        let mut served = 0;
        for client in &mut clients {
            served += usize::from(client.answer().await.status() == 200);
        }
        assert_eq!(served, LIMIT / 2, "{url}: half of what two routers have");
    }
}

/// `check` accepted the name, and a router with a store did not start.
#[tokio::test]
async fn a_fleet_whose_name_has_64_characters_shares_its_limits() {
    let cell = cell().await;
    let name = "x".repeat(64);
    let redis = RedisServer::start();
    redis.begin_epochs(&Fleet::parse(&name).unwrap());
    let text = text(&cell, "").replace("fleet: test", &format!("fleet: {name}"));
    let router = start(&text, &redis.url(), PATIENCE);
    let mut clients = send(&router, 1).await;
    reached(&cell, 1).await;
    cell.release(1);
    assert_eq!(clients[0].answer().await.status(), 200);
}
