//! Routers that share their limits through a real Redis, and go on when it is away.

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

async fn cell() -> Scripted {
    Scripted::start(|_| Play::Answer(ok("served"))).await
}

/// A bucket that does not fill during a test.
fn plan(burst: u32, more: &str) -> String {
    let plan = format!("{{ sustained: 1/h, burst: {burst}, max_in_flight: 50{more} }}");
    format!("plans: {{ test: {plan} }}\ntenant: {{ unknown: test }}\nlimits: {{ routers: 2 }}\n")
}

fn router(cell: &Scripted, rest: &str, url: &str, budget: Duration) -> TestRouter {
    let store = Some(SharedStore { endpoint: url.parse().unwrap(), budget });
    TestRouter::with(&alone(cell.address, rest), Settings { store, ..settings() }, 1)
}

/// A server that remembers everything since long ago, as far as the fleet of `alone` goes.
fn server() -> RedisServer {
    let server = RedisServer::start();
    server.begin_epochs(&Fleet::parse("test").unwrap());
    server
}

async fn connected(router: &TestRouter) {
    eventually("the store is connected", async || {
        (router.metrics().await.sum("cofferdam_store_connected", &[]) == 1.0).then_some(())
    })
    .await;
}

async fn served(router: &TestRouter, n: u32) -> u32 {
    let mut client = raw::Client::connect(router.data).await;
    let mut served = 0;
    for _ in 0..n {
        client.send(get("/", "acme")).await;
        served += u32::from(client.answer().await.status() == 200);
    }
    served
}

#[tokio::test]
async fn two_routers_hold_to_one_limit() {
    // P14, P49
    let (cell, redis) = (cell().await, server());
    let routers = [(); 2].map(|()| router(&cell, &plan(30, ""), &redis.url(), PATIENT));
    for router in &routers {
        connected(router).await;
    }
    let mut n = 0;
    for _ in 0..5 {
        for router in &routers {
            n += served(router, 5).await;
        }
    }
    assert_eq!(n, 30);
}

#[tokio::test]
async fn a_router_starts_without_its_store_and_goes_on_with_its_share() {
    // P49
    let cell = cell().await;
    let router = router(&cell, &plan(30, ""), "redis://127.0.0.1:1", Duration::from_millis(5));
    assert_eq!(served(&router, 40).await, 15, "half of what two routers have");
}

#[tokio::test]
async fn a_plan_that_is_closed_without_the_store_is_our_lack_of_room() {
    let cell = cell().await;
    let plan = plan(30, ", on_store_failure: closed");
    let router = router(&cell, &plan, "redis://127.0.0.1:1", Duration::from_millis(5));
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.problem().as_str()), (503, "store_unavailable"));
}

/// Both words were read at the start alone, and a reload that changed them was logged as taken.
#[tokio::test]
async fn how_many_routers_there_are_follows_a_reload() {
    let cell = cell().await;
    let router = router(&cell, &plan(30, ""), "redis://127.0.0.1:1", Duration::from_millis(5));
    let changed = plan(30, "").replace("routers: 2", "routers: 3");
    router.reload(&alone(cell.address, &changed)).await.unwrap();
    assert_eq!(router.metrics().await.sum("cofferdam_store_sessions", &[]), 3.0);
    assert_eq!(served(&router, 40).await, 10, "a third of the limit");
    router.reload(&alone(cell.address, &changed.replace("limits: { routers: 3 }", ""))).await.unwrap();
    assert_eq!(router.metrics().await.sum("cofferdam_store_sessions", &[]), 1.0);
}

#[tokio::test]
async fn whether_each_request_asks_follows_a_reload() {
    let (cell, redis) = (cell().await, server());
    let text = |mode: &str| {
        let plan = plan(1000, "").replace("1/h", "1k/s");
        alone(cell.address, &plan.replace("routers: 2", &format!("routers: 1, mode: {mode}")))
    };
    let store = Some(SharedStore { endpoint: redis.url().parse().unwrap(), budget: PATIENT });
    let router = TestRouter::with(&text("off"), Settings { store, ..settings() }, 1);
    connected(&router).await;
    let asked = async || {
        let before = router.metrics().await.sum("cofferdam_store_asked_total", &[]);
        assert_eq!(served(&router, 20).await, 20);
        router.metrics().await.sum("cofferdam_store_asked_total", &[]) - before
    };
    assert_eq!(asked().await, 0.0);
    router.reload(&text("lease")).await.unwrap();
    let spends = async || (asked().await == 0.0).then_some(());
    eventually("what is on loan to be spent from memory", spends).await;
    router.reload(&text("exact")).await.unwrap();
    assert_eq!(asked().await, 20.0);
    router.reload(&text("lease")).await.unwrap();
    eventually("the same again", spends).await;
}
