//! A new fleet file replaces the old one whole, or changes nothing and says why.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cofferdam_fleet::Fleet;
use cofferdam_model::TenantId;
use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::eventually;
use crate::support::files::{PINS, alone, revision};
use crate::support::processes::RealFleet;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, ok};

#[tokio::test]
async fn a_higher_revision_moves_tenants_and_a_request_in_flight_ends_where_it_is() {
    let slow = Scripted::start(|_| Play::Late(std::time::Duration::from_millis(400), ok("old"))).await;
    let new = Scripted::named("new").await;
    let router = TestRouter::start(&revision(1, &[slow.address, new.address], PINS));
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/", "acme")).await;
    router.in_flight(1).await;
    router.reload(&revision(2, &[new.address, slow.address], PINS)).await.unwrap();
    assert_eq!(router.ask(get("/", "acme")).await.text(), "new");
    assert_eq!(client.answer().await.text(), "old");
    assert_eq!(client.ask(get("/", "acme")).await.text(), "new");
    assert_eq!(router.admin("/fleet").await["revision"], 2);
    assert_eq!(new.seen()[0].head.field("cofferdam-revision"), Some("2"));
    router.idle().await;
}

#[tokio::test]
async fn what_may_not_follow_changes_nothing_and_says_why() {
    let (a, b) = (Scripted::named("a").await, Scripted::named("b").await);
    let router = TestRouter::start(&revision(5, &[a.address, b.address], PINS));
    let other_pins = "placement: { pins: { acme: [cell-b, cell-a] } }\n";
    let other_fleet = revision(6, &[a.address, b.address], PINS).replace("fleet: test", "fleet: other");
    for (text, why) in [
        (revision(4, &[a.address, b.address], PINS), "revision 4 is below 5, which runs"),
        (revision(5, &[a.address, b.address], other_pins), "raise the revision"),
        (other_fleet, "fleet other is not test, which runs"),
    ] {
        let error = router.reload(&text).await.unwrap_err();
        assert!(error.contains(why), "{error}");
        let fleet = router.admin("/fleet").await;
        assert_eq!(
            (fleet["revision"].as_u64(), fleet["last_reload_error"].as_str()),
            (Some(5), Some(error.as_str()))
        );
        assert_eq!(router.ask(get("/", "acme")).await.text(), "a");
    }
    router.reload(&revision(6, &[a.address, b.address], other_pins)).await.unwrap();
    assert_eq!(router.admin("/fleet").await["last_reload_error"], serde_json::Value::Null);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "b");
}

/// Addresses that nobody is at, for fleets that no request is sent to.
fn nowhere(n: u16) -> Vec<SocketAddr> {
    (1..=n).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
}

#[tokio::test]
async fn a_change_that_the_gate_refuses_is_not_taken_until_its_file_gives_a_new_reason() {
    let router = TestRouter::start(&revision(1, &nowhere(8), ""));
    let digest = router.admin("/fleet").await["digest"].clone();
    let placement = |seed: u64, more: &str| format!("placement: {{ seed: {seed}{more} }}\n");
    let reloads = async |outcome: &str| {
        let label = format!("outcome=\"{outcome}\"");
        router.metrics().await.sum("cofferdam_router_reloads_total", &[&label])
    };
    let error = router.reload(&revision(2, &nowhere(8), &placement(1, ""))).await.unwrap_err();
    assert!(error.starts_with("the change is refused: the map's seed changes"), "{error}");
    let fleet = router.admin("/fleet").await;
    assert_eq!(fleet["last_reload_error"], error);
    assert_eq!((&fleet["revision"], &fleet["digest"], &fleet["forced"]), (&1.into(), &digest, &Value::Null));
    assert_eq!((reloads("gate").await, reloads("taken").await, reloads("forced").await), (1.0, 0.0, 0.0));

    let forced = placement(1, ", force: everybody was told");
    router.reload(&revision(3, &nowhere(8), &forced)).await.unwrap();
    let fleet = router.admin("/fleet").await;
    assert_eq!((&fleet["revision"], &fleet["last_reload_error"]), (&3.into(), &Value::Null));
    assert_eq!(fleet["forced"]["reason"], "everybody was told");
    assert!(fleet["forced"]["refused"][0].as_str().unwrap().starts_with("the map's seed changes"));
    assert_eq!((reloads("gate").await, reloads("forced").await), (1.0, 1.0));

    // Those words were for revision 3: they neither force the next change nor stand in the way of a small one.
    let again = placement(2, ", force: everybody was told");
    assert!(router.reload(&revision(4, &nowhere(8), &again)).await.is_err());
    router.reload(&revision(4, &nowhere(9), &forced)).await.unwrap();
    assert_eq!(router.admin("/fleet").await["forced"], Value::Null);
    assert_eq!((reloads("gate").await, reloads("forced").await, reloads("taken").await), (2.0, 1.0, 1.0));
}

#[tokio::test]
async fn a_forced_revision_stays_so_while_its_limits_change() {
    let router = TestRouter::start(&revision(1, &nowhere(4), ""));
    let forced = "placement: { seed: 1, force: told }\n";
    router.reload(&revision(2, &nowhere(4), forced)).await.unwrap();
    router
        .reload(&revision(2, &nowhere(4), &format!("{forced}cell: {{ max_in_flight: 9 }}\n")))
        .await
        .unwrap();
    assert_eq!(router.admin("/fleet").await["forced"]["reason"], "told");
}

#[tokio::test]
async fn the_same_revision_may_change_what_is_no_placement() {
    let cell = Scripted::named("cell").await;
    let text = |in_flight: u32| {
        let plan = format!("plans: {{ p: {{ sustained: 1/s, burst: 9, max_in_flight: {in_flight} }} }}\n");
        alone(cell.address, &format!("{plan}tenant: {{ unknown: p }}\n"))
    };
    let router = TestRouter::start(&text(3));
    router.reload(&text(4)).await.unwrap();
    let answer = router.ask(get("/", "acme")).await;
    assert!(answer.field("ratelimit-policy").unwrap().contains("\"conc\";q=4"));
}

/// What a router says of where a tenant is, of the placement on each of these files.
fn told_by(texts: &[String], tenant: &str) -> Vec<String> {
    let told = |text: &String| {
        let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
        let placement = Placement::build(&placement_spec(&fleet)).unwrap();
        let tenant = TenantId::parse(tenant.as_bytes(), &fleet.tenant.alphabet).unwrap();
        let cells = placement.place(&tenant).shard.cells().iter();
        let cells: Vec<_> = cells.map(|cell| format!("\"{}\"", fleet.cells[cell.get()].id)).collect();
        format!("cells=({})", cells.join(" "))
    };
    texts.iter().map(told).collect()
}

#[tokio::test]
async fn a_hundred_reloads_under_load_fail_no_request_and_each_answer_is_placed_by_the_file_that_it_names() {
    const TENANTS: [&str; 4] = ["acme", "globex", "initech", "hooli"];
    let cells = [Scripted::named("a").await, Scripted::named("b").await, Scripted::named("c").await];
    let [a, b, c] = [0, 1, 2].map(|n: usize| cells[n].address);
    // Addresses, pins, weights and classes change with every revision; there are three kinds.
    let text = |n: u64| {
        let (cells, rest) = match n % 3 {
            0 => ([a, b, c], "pins: { acme: [cell-c, cell-a] }"),
            1 => ([b, c, a], "shard_size: 2 }\ncell: { classes: { more: {}, default: {} }"),
            _ => ([c, a, b], "pins: { globex: [cell-b, cell-a], hooli: [cell-a, cell-c] }"),
        };
        let text = revision(n, &cells, &format!("placement: {{ tell: true, {rest} }}"));
        let heavy = if n % 3 == 2 { "cell-c, weight: 2" } else { "cell-c" };
        text.replace("id: cell-c", &format!("id: {heavy}"))
    };
    let kinds = [text(3), text(4), text(5)];
    let told = TENANTS.map(|tenant| told_by(&kinds, tenant));
    assert!(told.iter().any(|told| told[0] != told[1]) && told.iter().any(|told| told[1] != told[2]));
    let router = TestRouter::start(&text(1));
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (data, stop, all, told) = (router.data, Arc::clone(&stop), Arc::clone(&served), told.clone());
        load.spawn(async move {
            let mut client = raw::Client::connect(data).await;
            let mut n_served = 0;
            while !stop.load(Ordering::SeqCst) {
                let who = (n + n_served) % TENANTS.len();
                let answer = client.ask(get("/", TENANTS[who])).await;
                assert_eq!(answer.status(), 200, "{answer:?}");
                let (revision, cells) =
                    answer.field("cofferdam-placement").unwrap().split_once(", ").unwrap();
                let revision: usize = revision.strip_prefix("revision=").unwrap().parse().unwrap();
                assert_eq!(cells, told[who][revision % 3], "{answer:?}");
                n_served += 1;
                all.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for n in 2..=101 {
        router.reload(&text(n)).await.unwrap();
        let enough = served.load(Ordering::SeqCst) + 4;
        eventually("requests between two reloads", async || {
            (served.load(Ordering::SeqCst) >= enough).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    load.join_all().await;
    let running = router.admin("/fleet").await;
    let metrics = router.metrics().await;
    let digest = format!("digest={}", running["digest"]);
    assert_eq!(
        (&running["revision"], metrics.sum("cofferdam_router_revision", &[])),
        (&Value::from(101), 101.0)
    );
    assert_eq!(metrics.sum("cofferdam_router_table", &[&digest]), 1.0, "{digest}");
    router.idle().await;
}

#[tokio::test]
async fn refusals_tell_the_placement_too_and_nobody_does_unless_the_file_says_so() {
    let cell = Scripted::named("cell").await;
    let text = |tell: bool| {
        format!(
            "fleet: test\ncells: [{{ id: cell-a, url: 'http://{}' }}]\nplacement: {{ shard_size: 1, tell: {tell} }}\n\
             plans: {{ p: {{ sustained: 1/h, burst: 1, max_in_flight: 9 }} }}\ntenant: {{ unknown: p }}\n",
            cell.address
        )
    };
    for tell in [true, false] {
        let router = TestRouter::start(&text(tell));
        let expected = tell.then_some("revision=1, cells=(\"cell-a\")");
        for status in [200, 429] {
            let answer = router.ask(get("/", "acme")).await;
            assert_eq!((answer.status(), answer.field("cofferdam-placement")), (status, expected));
        }
    }
}

#[tokio::test]
async fn a_changed_file_is_taken_by_router_and_cell_without_a_word_and_at_once_on_a_hangup() {
    let fleet = RealFleet::start(2, &[], |cells| revision(1, cells, "")).await;
    let cell = &fleet.cells[0];
    let places = |n: u32| format!("cell: {{ max_in_flight: {n} }}\n");
    let taken = |log: String| log.matches("fleet file taken").count();
    let write = |n: u64| fleet.write(&revision(n, &fleet.addresses, &places(n as u32)));
    write(2);
    for process in [&fleet.router, cell] {
        eventually("the file", async || (taken(process.log()) == 1).then_some(())).await;
    }
    write(3);
    cell.signal(Signal::HUP);
    eventually("the file", async || (taken(cell.log()) >= 2).then_some(())).await;
    write(1);
    eventually("a refusal", async || cell.log().contains("revision 1 is below 3").then_some(())).await;
}
