//! Processes that are followed by others under load, without a lost request.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;

use crate::support::files::{PINS, alone, fleet, revision};
use crate::support::load::Load;
use crate::support::message::read_head;
use crate::support::metrics::scrape;
use crate::support::processes::{Process, RealFleet, free_port, on_free_ports, probe, ready};
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Scripted, ok};
use crate::support::{ANY, eventually, within};

const HANDOVER: [&str; 2] = ["--handover", "FOLDER/router.sock"];

/// One cell is a shard.
const ONE: &str = "placement: { shard_size: 1 }\n";

/// What a process logs once it has read the second revision.
const TAKEN: &str = "fleet file taken revision=2";

async fn start(n_workers: &str) -> RealFleet {
    let flags = [&HANDOVER[..], &["--workers", n_workers]].concat();
    RealFleet::start(2, &flags, |cells| fleet(cells, PINS)).await
}

/// Whether readiness was there through all of it.
struct Readiness {
    asking: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Readiness {
    fn watch(probes: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let asking = tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                assert_eq!(probe(probes, "/readyz").await, 200);
            }
        });
        Self { asking, stop }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        within("the end of asking", self.asking).await.unwrap();
    }
}

#[tokio::test]
async fn a_router_that_hands_over_five_times_under_load_fails_no_request_and_stays_ready() {
    let mut fleet = start("2").await;
    let (load, readiness) = (Load::start(fleet.data), Readiness::watch(fleet.probes));
    for (n, workers) in ["1", "3", "2", "2", "1"].iter().enumerate() {
        let flags = [&HANDOVER[..], &["--workers", workers]].concat();
        let new = fleet.start_successor(&format!("router-{n}"), &flags);
        let mut old = std::mem::replace(&mut fleet.router, new);
        assert_eq!(old.end().await.code(), Some(0));
        assert!(old.log().contains("a successor serves"));
        load.goes_on().await;
    }
    load.end().await;
    readiness.end().await;
    assert!(fleet.router.ended().is_none(), "{}", fleet.router.log());
}

#[tokio::test]
async fn a_router_on_sockets_that_outlive_it_is_restarted_five_times_under_load_and_fails_no_request() {
    let fleet = RealFleet::start(2, &[], |cells| fleet(cells, PINS)).await;
    let [data, probes] = [(); 2].map(|()| std::net::TcpListener::bind(ANY).unwrap());
    let at = [data.local_addr().unwrap(), probes.local_addr().unwrap()];
    let (file, admin) = (fleet.folder.path().join("fleet.yaml"), free_port().to_string());
    let arguments = ["router", "--fleet", file.to_str().unwrap(), "--admin", &admin, "--workers", "2"];
    let start = |n: usize| {
        Process::start_on(fleet.folder.path(), &format!("router-{n}"), &arguments, [&data, &probes])
    };
    let mut router = start(0);
    ready(&mut router, at[1]).await.unwrap();
    let load = Load::start(at[0]);
    for n in 1..=5 {
        router.signal(Signal::TERM);
        assert_eq!(router.end().await.code(), Some(0));
        router = start(n);
        load.goes_on().await;
    }
    load.end().await;
}

#[tokio::test]
async fn what_was_passed_and_is_no_listening_socket_ends_the_process_with_a_reason() {
    let listener = std::net::TcpListener::bind(ANY).unwrap();
    let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.yaml");
    std::fs::write(&path, alone(ANY, "").replace(":0", ":1")).unwrap();
    let sockets: [(&dyn AsFd, &str); 2] = [(&connected, "does not listen"), (&file, "is not one for tcp")];
    for (socket, why) in sockets {
        let arguments = ["router", "--fleet", path.to_str().unwrap()];
        let mut router = Process::start_on(folder.path(), "router", &arguments, [socket, &listener]);
        assert_eq!(router.end().await.code(), Some(1));
        assert!(router.log().contains(&format!("LISTEN_FDS: socket 0 {why}")), "{}", router.log());
    }
}

#[tokio::test]
async fn an_agent_that_hands_over_five_times_under_load_fails_no_request_and_stays_ready() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let backend = format!("unix:{}", at("app.sock"));
    let _backend = Process::start(folder.path(), "backend", &["backend", "--listen", &backend]);
    let (data, probes) = (free_port(), free_port());
    let text = alone(data, "");
    std::fs::write(at("fleet.yaml"), &text).unwrap();
    let (file, handover) = (at("fleet.yaml"), at("agent.sock"));
    let addresses = [data, probes].map(|address| address.to_string());
    let start = |n: usize, workers: &str| {
        let cell = ["agent", "--fleet", &file, "--cell", "cell-a", "--backend", &backend];
        let listen = ["--listen", &addresses[0], "--probe-listen", &addresses[1]];
        let rest = ["--handover", &handover, "--workers", workers];
        let arguments = [&cell[..], &listen, &rest].concat();
        Process::start(folder.path(), &format!("agent-{n}"), &arguments)
    };
    let mut agent = start(0, "2");
    ready(&mut agent, probes).await.unwrap();
    let router = TestRouter::start(&text);
    let (load, readiness) = (Load::start(router.data), Readiness::watch(probes));
    for (n, workers) in ["1", "3", "2", "2", "1"].iter().enumerate() {
        let mut old = std::mem::replace(&mut agent, start(n + 1, workers));
        assert_eq!(old.end().await.code(), Some(0));
        assert!(old.log().contains("a successor serves"));
        load.goes_on().await;
    }
    load.end().await;
    readiness.end().await;
    router.idle().await;
}

/// A backend whose answer to `/long` stands still after its first bytes.
async fn stands_still() -> Scripted {
    Scripted::raw(async |stream, _| {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(head)) = read_head(&mut stream).await {
            let is_long = head.second_word() == "/long";
            let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun".to_vec();
            let _ = stream.write_all(&if is_long { begun } else { ok("served") }).await;
            if is_long {
                std::future::pending::<()>().await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_long_answer_that_an_agent_cuts_after_it_was_followed_is_no_loss() {
    let (backend, folder) = (stands_still().await, tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, path, backend) = (at("fleet.yaml"), at("agent.sock"), format!("http://{}", backend.address));
    let start = |name, [data, probes]: [SocketAddr; 2]| {
        let [data, probes] = [data, probes].map(|address| address.to_string());
        let cell =
            ["agent", "--fleet", &file, "--cell", "cell-a", "--backend", &backend, "--handover", &path];
        let listen = ["--listen", &data, "--probe-listen", &probes, "--drain-deadline", "4s"];
        Process::start(folder.path(), name, &[&cell[..], &listen].concat())
    };
    let ([data, probes], text, mut old) = on_free_ports(async || {
        let [data, probes] = [free_port(), free_port()];
        let url = format!("url: \"http://{data}\"");
        let text = alone(data, "").replace(&url, &format!("{url}, probe: \"http://{probes}\""));
        std::fs::write(&file, &text).unwrap();
        let mut old = start("old", [data, probes]);
        ready(&mut old, probes).await?;
        Some(([data, probes], text, old))
    })
    .await;
    let router = TestRouter::start(&text);
    let mut client = raw::Client::connect(router.data).await;
    client.send(get("/long", "acme")).await;
    let in_use = async || scrape(probes).await.sum("cofferdam_agent_places_in_use", &[]);
    eventually("the answer to be on its way", async || (in_use().await == 1.0).then_some(())).await;
    let _new = start("new", [data, probes]);
    // The one that drains has nothing more to say to anybody, and the other says it.
    let hop = get("/", "acme").replace("x-tenant-id", "cofferdam-tenant");
    let said = async || raw::ask(data, &hop).await.field("cofferdam-leaving-ms").map(|_| ());
    eventually("an answer that says when what is left is cut", said).await;
    assert!(!client.answer().await.whole);
    assert_eq!(old.end().await.code(), Some(0));
    assert!(old.log().contains("drain deadline passed: what is left is cut"), "{}", old.log());
    router.idle().await;
    assert_eq!(router.admin("/losses").await["losses"], 0);
}

/// A successor that has connected to a router that does not run just now.
async fn waiting_successor(fleet: &RealFleet) -> Process {
    fleet.router.signal(Signal::STOP);
    let successor = fleet.start_successor("successor", &HANDOVER);
    connected(fleet.folder.path().join("router.sock").to_str().unwrap()).await;
    successor
}

/// Waits until a successor has connected to a process that does not run just now.
async fn connected(path: &str) {
    eventually("a successor at the path", async || {
        // The listener is one line, and each connection that nobody has accepted another.
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        (sockets.lines().filter(|line| line.contains(path)).count() > 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_successor_that_is_killed_before_it_serves_is_not_noticed_and_another_one_follows() {
    let mut fleet = start("2").await;
    let (load, readiness) = (Load::start(fleet.data), Readiness::watch(fleet.probes));
    let mut killed = waiting_successor(&fleet).await;
    killed.signal(Signal::KILL);
    assert!(!killed.end().await.success());
    fleet.router.signal(Signal::CONT);
    // One that has the sockets already, and goes.
    let path = fleet.folder.path().join("router.sock");
    let claimed = cofferdam_proxy::handover::claim(&path, "router").await.unwrap().unwrap();
    assert_eq!(claimed.sockets.len(), 4);
    drop(claimed);
    let followed = fleet.start_successor("follows", &HANDOVER);
    let mut old = std::mem::replace(&mut fleet.router, followed);
    assert_eq!(old.end().await.code(), Some(0));
    assert_eq!(old.log().matches("nobody follows").count(), 2);
    load.goes_on().await;
    load.end().await;
    readiness.end().await;
}

#[tokio::test]
async fn a_router_that_is_told_to_leave_while_a_successor_comes_waits_until_it_serves() {
    let mut fleet = start("2").await;
    let (load, readiness) = (Load::start(fleet.data), Readiness::watch(fleet.probes));
    let successor = waiting_successor(&fleet).await;
    fleet.router.signal(Signal::TERM);
    fleet.router.signal(Signal::CONT);
    let mut old = std::mem::replace(&mut fleet.router, successor);
    assert_eq!(old.end().await.code(), Some(0));
    assert!(old.log().contains("a successor serves"));
    load.goes_on().await;
    load.end().await;
    readiness.end().await;
}

#[tokio::test]
async fn a_successor_of_a_router_that_was_killed_binds_and_takes_the_path_over() {
    let mut fleet = start("1").await;
    fleet.router.signal(Signal::KILL);
    fleet.router.end().await;
    for name in ["second", "third"] {
        let mut next = fleet.start_successor(name, &HANDOVER);
        ready(&mut next, fleet.probes).await.unwrap();
        eventually("the path", async || {
            let path = fleet.folder.path().join("router.sock");
            std::os::unix::net::UnixStream::connect(path).is_ok().then_some(())
        })
        .await;
        let mut old = std::mem::replace(&mut fleet.router, next);
        if name == "third" {
            assert_eq!(old.end().await.code(), Some(0));
        }
    }
    fleet.router.signal(Signal::TERM);
    assert_eq!(fleet.router.end().await.code(), Some(0));
    assert!(!fleet.folder.path().join("router.sock").exists());
}

#[tokio::test]
async fn a_process_of_another_kind_at_the_path_ends_and_nothing_is_handed_over() {
    let fleet = start("1").await;
    let file = fleet.folder.path().join("fleet.yaml");
    let path = fleet.folder.path().join("router.sock");
    let free = [free_port(), free_port()].map(|address| address.to_string());
    let cell = ["cell", "--fleet", file.to_str().unwrap(), "--cell", "cell-a", "--listen", &free[0]];
    let rest = ["--probe-listen", &free[1], "--handover", path.to_str().unwrap()];
    let mut other = Process::start(fleet.folder.path(), "other", &[&cell[..], &rest].concat());
    assert_eq!(other.end().await.code(), Some(1));
    assert!(other.log().contains("says \"handover 1 router\", not \"handover 1 cell\""), "{}", other.log());
    assert_eq!(probe(fleet.probes, "/readyz").await, 200);
}

/// The file was looked at for the first time once the process served, and what had changed since it was read was never
/// taken.
#[tokio::test]
async fn a_fleet_file_that_changes_while_a_router_waits_to_serve_is_taken() {
    let mut fleet = RealFleet::start(0, &HANDOVER, |_| revision(1, &[free_port()], ONE)).await;
    let successor = waiting_successor(&fleet).await;
    fleet.write(&revision(2, &[free_port()], ONE));
    fleet.router.signal(Signal::CONT);
    let mut old = std::mem::replace(&mut fleet.router, successor);
    assert_eq!(old.end().await.code(), Some(0));
    eventually("revision 2", async || fleet.router.log().contains(TAKEN).then_some(())).await;
}

#[tokio::test]
async fn a_fleet_file_that_changes_while_a_cell_waits_to_serve_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, path) = (at("fleet.yaml"), at("cell.sock"));
    let (data, probes) = (free_port(), free_port());
    let addresses = [data, probes].map(|address| address.to_string());
    let arguments = ["cell", "--fleet", &file, "--cell", "cell-a", "--handover", &path, "--workers", "1"];
    let listen = ["--listen", &addresses[0], "--probe-listen", &addresses[1]];
    let start = |name| Process::start(folder.path(), name, &[&arguments[..], &listen].concat());
    std::fs::write(&file, revision(1, &[data], ONE)).unwrap();
    let mut old = start("old");
    ready(&mut old, probes).await.unwrap();
    old.signal(Signal::STOP);
    let new = start("new");
    connected(&path).await;
    std::fs::write(&file, revision(2, &[data], ONE)).unwrap();
    old.signal(Signal::CONT);
    assert_eq!(old.end().await.code(), Some(0));
    eventually("revision 2", async || new.log().contains(TAKEN).then_some(())).await;
}
