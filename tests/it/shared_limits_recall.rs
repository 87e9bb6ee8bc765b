//! Routers that share a limit refuse a request only where one exact limiter would: what idles at one router is found for another.

use std::time::Duration;

use cofferdam_limits::redis::Fleet;
use cofferdam_router::{Settings, SharedStore};

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};

/// A machine that does other things besides is no store that is away.
const PATIENT: Duration = Duration::from_secs(5);
/// The default plan.
const WIDE: &str = "sustained: 1k/s, burst: 2000, max_in_flight: 200";

/// Two routers that share the limits of a fleet whose only plan this is.
struct Pair {
    routers: [TestRouter; 2],
    cell: Scripted,
    _redis: RedisServer,
}

impl Pair {
    async fn start(plan: &str, more: &str) -> Self {
        let held = ok("held");
        let cell = Scripted::start(move |seen| match seen.head.second_word() {
            "/hold" => Play::Hold(held.clone()),
            _ => Play::Answer(ok("served")),
        })
        .await;
        let redis = RedisServer::start();
        redis.begin_epochs(&Fleet::parse("test").unwrap());
        let text = format!("plans: {{ test: {{ {plan} }} }}\ntenant: {{ unknown: test }}\n{more}");
        let text = alone(cell.address, &text);
        let start = |()| {
            let store = Some(SharedStore { endpoint: redis.url().parse().unwrap(), budget: PATIENT });
            TestRouter::with(&text, Settings { store, ..settings() }, 1)
        };
        let routers = [(); 2].map(start);
        for router in &routers {
            eventually("each router to know of the other", async || {
                let metrics = router.metrics().await;
                (metrics.sum("cofferdam_store_sessions", &[]) == 2.0).then_some(())
            })
            .await;
        }
        Self { routers, cell, _redis: redis }
    }

    async fn client(&self, router: usize) -> raw::Client {
        raw::Client::connect(self.routers[router].data).await
    }

    /// Sends these many requests of a tenant to a router, one after the other; how many were admitted.
    async fn admitted(&self, router: usize, tenant: &str, n: usize) -> usize {
        let mut client = self.client(router).await;
        let mut admitted = 0;
        for _ in 0..n {
            admitted += usize::from(client.ask(get("/", tenant)).await.status() == 200);
        }
        admitted
    }

    /// Sends these many requests that stay in flight.
    async fn hold(&self, router: usize, n: usize) -> Vec<raw::Client> {
        let before = self.cell.seen().len();
        let mut clients = Vec::new();
        for _ in 0..n {
            let mut client = self.client(router).await;
            client.send(get("/hold", "acme")).await;
            clients.push(client);
        }
        let what = format!("{n} requests of router {router} in flight");
        eventually(&what, async || (self.cell.seen().len() == before + n).then_some(())).await;
        clients
    }
}

/// The second router's request was refused for half a second: the first one had all permits on loan, and used one at a time.
#[tokio::test]
async fn permits_that_idle_at_one_router_are_there_for_the_other() {
    let pair = Pair::start(WIDE, "").await;
    assert_eq!(pair.admitted(0, "acme", 12).await, 12);
    assert_eq!(pair.admitted(1, "acme", 1).await, 1);
}

/// Other tenants were refused with 503 in five of eight rounds.
#[tokio::test]
async fn permits_of_the_ceiling_that_idle_at_one_router_are_there_for_other_tenants() {
    let pair = Pair::start(WIDE, "ceiling: { sustained: 1k/s, burst: 2000, max_in_flight: 500 }\n").await;
    for round in 0..8 {
        for tenant in ["a", "b", "c"] {
            assert_eq!(pair.admitted(0, &format!("{tenant}-{round}"), 12).await, 12, "round {round}");
        }
        assert_eq!(pair.admitted(1, &format!("other-{round}"), 1).await, 1, "round {round}");
    }
}

/// Of 95 requests 72 to 77 were admitted, the first refusal with `"rate";r=9` on it.
#[tokio::test]
async fn a_burst_is_there_for_requests_that_alternate_between_routers() {
    let pair = Pair::start("sustained: 20/s, burst: 100, max_in_flight: 200", "").await;
    let mut clients = [pair.client(0).await, pair.client(1).await];
    for nth in 0..95 {
        let answer = clients[nth % 2].ask(get("/", "acme")).await;
        assert_eq!(answer.status(), 200, "request {nth}: {answer:?}");
    }
}

/// None of the 35 was admitted.
#[tokio::test]
async fn what_one_router_leaves_of_a_burst_is_there_for_the_other() {
    let pair = Pair::start("sustained: 20/s, burst: 100, max_in_flight: 200", "").await;
    assert_eq!(pair.admitted(0, "acme", 60).await, 60);
    assert_eq!(pair.admitted(1, "acme", 35).await, 35);
}

/// The first router kept a spare quarter for as long as its requests took, and the second one had nothing.
#[tokio::test]
async fn permits_beside_long_requests_are_there_for_the_other_router() {
    let pair = Pair::start("sustained: 1k/s, burst: 2000, max_in_flight: 100", "").await;
    let _long = pair.hold(0, 80).await;
    assert_eq!(pair.admitted(1, "acme", 5).await, 5, "one at a time");
    let _all = pair.hold(1, 20).await;
    for router in [0, 1] {
        assert_eq!(pair.admitted(router, "acme", 1).await, 0, "the hundred are in flight");
    }
    assert_eq!(pair.cell.seen().len(), 105);
}
