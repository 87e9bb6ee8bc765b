//! Drills: a fault is injected in one place while the others are watched.

use std::time::Duration;

use cofferdam_proxy::serve::ServeLimits;
use cofferdam_router::Settings;

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, alone, fleet};
use crate::support::raw::{self, get};
use crate::support::relay::{Relay, Way, Weather};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;
use crate::support::{eventually, within};

#[tokio::test]
async fn latency_on_one_cell_is_felt_by_its_tenants_alone() {
    // P26
    let (a, b) = (Scripted::named("a").await, Scripted::named("b").await);
    let relay = Relay::before(a.address).await;
    let router = TestRouter::start(&fleet(&[relay.address, b.address], PINS));
    relay.set(Weather::Held(Way::Answers));
    let data = router.data;
    let late = tokio::spawn(async move { raw::ask(data, get("/", "acme")).await.text() });
    eventually("the cell to be asked", async || (a.seen().len() == 1).then_some(())).await;
    for _ in 0..20 {
        assert_eq!(router.ask(get("/", "globex")).await.text(), "b");
    }
    assert!(!late.is_finished(), "it waits for its own cell all the while");
    relay.set(Weather::Clear);
    assert_eq!(within("the late answer", late).await.unwrap(), "a");
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_anything_leaves_every_permit_and_place_back() {
    let fleet = TestFleet::start(PINS).await;
    for round in 0..3 {
        for request in [
            get("/hang", "acme"),
            raw::with_fields("POST", "/", "acme", "content-length: 100\r\n") + "half",
            raw::with_fields("POST", "/hang", "acme", "transfer-encoding: chunked\r\n") + "4\r\nhalf\r\n",
        ] {
            let mut client = raw::Client::connect(fleet.router.data).await;
            client.send(request).await;
            fleet.router.in_flight(1).await;
            drop(client);
            fleet.idle().await;
        }
        assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200, "round {round}");
    }
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_download_frees_its_cell() {
    let endless = Scripted::raw(|mut stream: tokio::net::TcpStream, _| async move {
        use tokio::io::AsyncWriteExt;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
    })
    .await;
    let router = TestRouter::start(&alone(endless.address, ""));
    for n in 1..=3 {
        let mut client = raw::Client::connect(router.data).await;
        client.send(get("/", "acme")).await;
        let mut framing = client.head().await.response_framing(false);
        client.part(&mut framing).await.unwrap();
        drop(client);
        router.idle().await;
        let metrics = router.metrics().await;
        assert_eq!(
            metrics.sum("cofferdam_router_requests_total", &["outcome=\"client_gone\""]),
            f64::from(n)
        );
    }
}

#[tokio::test]
async fn many_connections_that_say_nothing_hold_no_permit_and_hinder_nobody() {
    // P16
    let cell = Scripted::named("cell").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let mut silent = Vec::new();
    for n in 0..200 {
        let mut client = raw::Client::connect(router.data).await;
        if n % 2 == 0 {
            client.send("GET / HTTP/1.1\r\nhost: x\r\nx-ten").await;
        }
        silent.push(client);
    }
    for _ in 0..20 {
        assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
    }
    router.idle().await;
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_until_others_leave() {
    // P16
    let cell = Scripted::named("cell").await;
    let serve = ServeLimits { max_connections: 2, ..ServeLimits::default() };
    let router = TestRouter::with(&alone(cell.address, ""), Settings { serve, ..settings() }, 1);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = raw::Client::connect(router.data).await;
        assert_eq!(client.ask(get("/", "acme")).await.status(), 200);
        held.push(client);
    }
    let mut third = raw::Client::connect(router.data).await;
    third.send(get("/", "acme")).await;
    assert!(tokio::time::timeout(Duration::from_millis(200), third.head()).await.is_err());
    drop(held);
    assert_eq!(third.answer().await.status(), 200);
}

#[tokio::test]
async fn a_cell_whose_probe_says_no_is_not_asked_first_by_reason_of_its_own_refusals() {
    let mut fleet = TestFleet::probed(PINS).await;
    let up = async |n: f64| {
        let metrics = fleet.router.metrics().await;
        (metrics.sum("cofferdam_router_cell_up", &["cell=\"cell-a\""]) == n).then_some(())
    };
    eventually("the home to be up", async || up(1.0).await).await;
    assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "cell-a");
    let backend = std::mem::replace(&mut fleet.cells[0].backend, Scripted::named("unused").await);
    backend.stop().await;
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let data = fleet.router.data;
        load.spawn(async move {
            let mut client = raw::Client::connect(data).await;
            loop {
                assert_eq!(client.ask(get("/", "acme")).await.text(), "cell-b");
            }
        });
    }
    let unreachable = ["outcome=\"unreachable\""];
    let refusals =
        async || fleet.cells[0].metrics().await.sum("cofferdam_agent_requests_total", &unreachable);
    eventually("the home to be left alone", async || {
        let before = refusals().await;
        for _ in 0..100 {
            assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "cell-b");
        }
        (before > 0.0 && refusals().await == before).then_some(())
    })
    .await;
    load.shutdown().await;
}
