//! Processes that die, are told to leave, and read their file again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::net::TcpStream;

use crate::support::files::{PINS, alone, fleet, revision};
use crate::support::metrics::scrape;
use crate::support::processes::{Process, RealFleet, probe, run};
use crate::support::raw::{self, get};
use crate::support::scripted::{Play, Refusing, Scripted, ok};
use crate::support::{eventually, within};

/// Asks on one connection until it is stopped, for ten tenants in turn, and brings back what was no whole 200.
async fn ask_on(
    data: SocketAddr,
    lane: u32,
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU32>,
) -> Vec<raw::Answer> {
    let mut client = raw::Client::connect(data).await;
    let (mut nth, mut failed) = (0, Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let path = if nth % 4 == 0 { "/slow?ms=20" } else { "/" };
        let answer = client.ask(get(path, &format!("tenant-{}", lane * 10 + nth % 10))).await;
        if answer.status() != 200 || !answer.whole {
            failed.push(answer);
        }
        nth += 1;
        served.fetch_add(1, Ordering::SeqCst);
    }
    failed
}

#[tokio::test]
async fn a_cell_that_is_killed_under_an_idempotent_load_fails_no_request() {
    let mut fleet = RealFleet::start(4, &["--workers", "2"], |cells| fleet(cells, "")).await;
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut load = tokio::task::JoinSet::new();
    for lane in 0..8 {
        load.spawn(ask_on(fleet.data, lane, Arc::clone(&stop), Arc::clone(&served)));
    }
    let many = async |what: &str| {
        let enough = served.load(Ordering::SeqCst) + 150;
        eventually(what, async || (served.load(Ordering::SeqCst) >= enough).then_some(())).await;
    };
    many("requests before the kill").await;
    fleet.cells[0].signal(Signal::KILL);
    assert!(!fleet.cells[0].end().await.success());
    many("requests after it").await;
    eventually("an attempt on the cell that is gone", async || {
        let metrics = scrape(fleet.probes).await;
        let failed = metrics.sum("cofferdam_router_failed_attempts_total", &["cell=\"cell-a\""]);
        (failed > 0.0).then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    for failed in within("the load's end", load.join_all()).await {
        assert!(failed.is_empty(), "{failed:?}");
    }
}

#[tokio::test]
async fn a_terminated_router_turns_unready_finishes_and_exits_with_0() {
    let cell = Scripted::start(|_| Play::Late(Duration::from_millis(1500), ok("late"))).await;
    let flags = ["--drain-grace", "300ms", "--drain-deadline", "10s"];
    let mut fleet = RealFleet::start(0, &flags, |_| alone(cell.address, "")).await;
    let mut client = raw::Client::connect(fleet.data).await;
    client.send(get("/", "acme")).await;
    eventually("the request to reach the cell", async || (cell.seen().len() == 1).then_some(())).await;
    fleet.router.signal(Signal::TERM);
    eventually("readiness to turn", async || (probe(fleet.probes, "/readyz").await == 503).then_some(()))
        .await;
    assert_eq!(client.answer().await.text(), "late");
    assert_eq!(fleet.router.end().await.code(), Some(0));
}

#[tokio::test]
async fn probe_exits_with_0_where_a_process_is_ready_and_says_why_where_it_is_not() {
    let cell = Scripted::named("cell").await;
    let fleet = RealFleet::start(0, &["--drain-grace", "20s"], |_| alone(cell.address, "")).await;
    let at = fleet.probes.to_string();
    assert_eq!(run(&["probe", "--at", &at]).status.code(), Some(0));
    fleet.router.signal(Signal::TERM);
    eventually("readiness to turn", async || (probe(fleet.probes, "/readyz").await == 503).then_some(()))
        .await;
    let unready = run(&["probe", "--at", &at]);
    let said = String::from_utf8(unready.stderr).unwrap();
    assert_eq!(unready.status.code(), Some(1), "{said}");
    assert_eq!(said, format!("cofferdam: http://{at}/readyz answers 503 Service Unavailable: draining\n"));
    assert_eq!(run(&["probe", "--at", &at, "--path", "/healthz"]).status.code(), Some(0));
    drop(fleet.router);
    let said = String::from_utf8(run(&["probe", "--at", &at]).stderr).unwrap();
    assert!(said.starts_with(&format!("cofferdam: could not ask http://{at}/readyz: ")), "{said}");
}

#[tokio::test]
async fn every_process_leaves_when_its_standard_input_closes() {
    let mut fleet = RealFleet::start(2, &[], |cells| fleet(cells, PINS)).await;
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.status(), 200);
    for cell in &mut fleet.cells {
        cell.close_stdin();
    }
    fleet.router.close_stdin();
    for process in fleet.cells.iter_mut().chain([&mut fleet.router]) {
        assert_eq!(process.end().await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_second_router_at_a_port_that_is_taken_ends_and_the_clients_of_the_first_notice_nothing() {
    let cell = Scripted::named("cell").await;
    let fleet = RealFleet::start(0, &["--workers", "2"], |_| alone(cell.address, "")).await;
    let mut second = fleet.start_second_router();
    let status = eventually("the second router's end", async || {
        // Each on a connection of its own, which the kernel could have given to the other process.
        assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "cell");
        second.ended()
    })
    .await;
    assert_eq!(status.code(), Some(1));
    assert!(second.log().contains(&format!("could not listen on {}: Address already in use", fleet.data)));
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "cell");
}

#[tokio::test]
async fn what_is_odd_about_a_fleet_file_is_logged_at_the_start_and_at_each_reload() {
    let (a, b) = (Scripted::named("a").await, Scripted::named("b").await);
    let cells = [a.address, b.address];
    let fleet = RealFleet::start(0, &[], |_| revision(1, &cells, PINS)).await;
    let one_zone = || fleet.router.log().matches("fleet.yaml:4:3: cells: all cells are in one zone").count();
    assert_eq!(one_zone(), 1);
    fleet.write(&revision(2, &cells, PINS));
    fleet.router.signal(Signal::HUP);
    eventually("the warning again", async || (one_zone() == 2).then_some(())).await;
}

#[tokio::test]
async fn the_log_says_whose_a_request_was_where_it_went_and_why_a_cell_is_down() {
    let (cell, down) = (Scripted::named("cell").await, Refusing::new());
    let pins = "placement: { pins: { acme: [cell-b, cell-a] } }\n";
    let flags = ["--log", "cofferdam_router=debug"];
    let fleet = RealFleet::start(0, &flags, |_| fleet(&[cell.address, down.address], pins)).await;
    assert_eq!(raw::ask(fleet.data, get("/x", "acme")).await.text(), "cell");
    let answered = r#"path="/x" tenant="acme" class="default" cell="cell-a"}: request answered status=200"#;
    eventually("the request's line", async || fleet.router.log().contains(answered).then_some(())).await;
    assert!(fleet.router.log().contains("fault=could not connect: Connection refused"));
}

#[tokio::test]
async fn a_hangup_takes_the_new_file_and_a_bad_one_changes_nothing_and_says_why() {
    let (a, b) = (Scripted::named("a").await, Scripted::named("b").await);
    let cells = [a.address, b.address];
    let fleet = RealFleet::start(0, &[], |_| revision(1, &cells, PINS)).await;
    let admin = async || -> serde_json::Value {
        let answer = raw::ask(fleet.admin, "GET /fleet HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        serde_json::from_slice(&answer.body).unwrap()
    };
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "a");
    fleet.write(&revision(2, &[b.address, a.address], PINS));
    fleet.router.signal(Signal::HUP);
    eventually("revision 2", async || (admin().await["revision"] == 2).then_some(())).await;
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "b");
    for (text, why) in [
        (revision(3, &cells, "cell: { max_in_flight: many }\n"), "cell.max_in_flight"),
        (revision(1, &cells, PINS), "revision 1 is below 2"),
        (revision(3, &cells, "placement: { seed: 1 }\n"), "the change is refused: the map's seed changes"),
        ("fleet: [".to_owned(), "fleet.yaml"),
    ] {
        fleet.write(&text);
        fleet.router.signal(Signal::HUP);
        let refused = async || {
            admin().await["last_reload_error"].as_str().is_some_and(|error| error.contains(why)).then_some(())
        };
        eventually(why, refused).await;
        assert_eq!(admin().await["revision"], 2);
        assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.text(), "b");
    }
    let log = fleet.router.log();
    assert!(log.contains("the old one goes on") && log.contains("error=the change is refused"), "{log}");
}

#[tokio::test]
async fn a_terminated_cell_turns_its_router_away_before_it_leaves() {
    let mut fleet = RealFleet::start(2, &[], |cells| fleet(cells, PINS)).await;
    let mut client = raw::Client::connect(fleet.data).await;
    assert!(client.ask(get("/", "acme")).await.text().contains("\"backend\":\"cell-a\""));
    fleet.cells[0].signal(Signal::TERM);
    let begun = Instant::now();
    while fleet.cells[0].ended().is_none() {
        let answer = client.ask(get("/", "acme")).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(15));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(client.ask(get("/", "acme")).await.text().contains("\"backend\":\"cell-b\""));
    assert_eq!(fleet.cells[0].end().await.code(), Some(0));
    assert_eq!(fleet.addresses.len(), 2);
}

#[tokio::test]
async fn a_process_takes_as_many_open_files_as_it_may_have() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["backend", "--listen", "127.0.0.1:0"];
    let backend = Process::start_with_files(folder.path(), "backend", (64, 512), &arguments);
    let address = eventually("a backend that listens", async || {
        let log = backend.log();
        log.split_once("listen=")?.1.split_whitespace().next()?.parse().ok()
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..128 {
        let mut client = raw::Client::connect(address).await;
        assert_eq!(client.ask(get("/", "acme")).await.status(), 200);
        clients.push(client);
    }
}

#[tokio::test]
async fn a_tenant_whose_request_kills_its_cells_is_named_in_the_log_and_as_a_metric() {
    let cells = vec![vec!["cell", "--allow-poison"]; 2];
    let fleet = RealFleet::of(&cells, &[], |cells| fleet(cells, PINS)).await;
    let confined = async || {
        let metrics = scrape(fleet.probes).await;
        let name = "cofferdam_router_tenant_confined";
        (metrics.sum(name, &["tenant=\"acme\""]), metrics.sum(name, &[]))
    };
    assert_eq!(confined().await, (0.0, 0.0));
    assert_eq!(raw::ask(fleet.data, get("/poison", "acme")).await.problem(), "cell_lost");
    let named = "it is sent to its home cell alone for 60 s tenant=acme first=cell-a second=cell-b";
    eventually("the log to name it", async || fleet.router.log().contains(named).then_some(())).await;
    assert_eq!(confined().await, (1.0, 1.0));
}

/// The address that a line of the log gives a listener.
fn logged_address(log: &str, line: &str, listener: &str) -> Option<SocketAddr> {
    let line = log.lines().find(|text| text.contains(line))?;
    let (_, rest) = line.split_once(&format!(" {listener}="))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[tokio::test]
async fn every_listener_on_port_0_is_logged_with_the_port_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(
        &file,
        "fleet: f\ncells: [{ id: a, url: 'http://127.0.0.1:1' }, { id: b, url: 'http://127.0.0.1:2' }]\n",
    )
    .unwrap();
    let any = "127.0.0.1:0";
    let own = [
        "--fleet",
        file.to_str().unwrap(),
        "--listen",
        any,
        "--admin",
        any,
        "--probe-listen",
        any,
        "--workers",
        "2",
    ];
    let router = Process::start(folder.path(), "router", &[&["router"], &own[..]].concat());
    let cell = Process::start(
        folder.path(),
        "cell",
        &[&["cell", "--cell", "a", "--allow-drills"], &own[..]].concat(),
    );
    for (process, line) in [(&router, "router serves"), (&cell, "agent starts")] {
        let mut addresses = Vec::new();
        for listener in ["listen", "admin", "probes"] {
            let address =
                eventually(listener, || std::future::ready(logged_address(&process.log(), line, listener)))
                    .await;
            assert_ne!(address.port(), 0, "{}", process.log());
            addresses.push(address);
        }
        for address in &addresses {
            assert!(TcpStream::connect(address).await.is_ok(), "{address}: {}", process.log());
        }
        addresses.dedup();
        assert_eq!(addresses.len(), 3);
    }
}
