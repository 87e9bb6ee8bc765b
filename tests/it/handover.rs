//! Handovers at the wrong moment: whatever stalls or fails, somebody serves.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_proxy::handover::{Named, Offer, Ownership, PATIENCE, claim};
use cofferdam_proxy::listen;
use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::files::{PINS, fleet};
use crate::support::load::Load;
use crate::support::processes::{Process, RealFleet, free_port, probe, ready};
use crate::support::raw::{self, Answer, get};
use crate::support::routers::tell;
use crate::support::{ANY, eventually};

const HANDOVER: [&str; 2] = ["--handover", "FOLDER/router.sock"];

async fn start() -> RealFleet {
    RealFleet::start(2, &HANDOVER, |cells| fleet(cells, PINS)).await
}

/// The running router stalls with its successor's word unread, for longer than the successor used to wait: the successor
/// gave up, the router then heard it and left, and nobody served.
#[tokio::test]
async fn a_successor_does_not_leave_while_a_stalled_router_may_still_hear_that_it_serves() {
    let mut fleet = start().await;
    let path = fleet.folder.path().join("router.sock");
    let claimed = claim(&path, "router").await.unwrap().unwrap();
    fleet.router.signal(Signal::STOP);
    let mut serving = tokio::spawn(claimed.serving());
    let stalled = PATIENCE + Duration::from_secs(1);
    assert!(timeout(stalled, &mut serving).await.is_err(), "the successor has given up");
    fleet.router.signal(Signal::CONT);
    serving.await.unwrap().unwrap();
    assert_eq!(fleet.router.end().await.code(), Some(0));
    assert!(fleet.router.log().contains("a successor serves"));
}

/// The same with the successor as a process. Its predecessor is this test's own, which does not run meanwhile.
#[test]
fn a_router_serves_beside_a_stalled_predecessor_and_follows_it_once_that_is_heard_of() {
    let test = runtime();
    let fleet = test.block_on(RealFleet::start(2, &[], |cells| fleet(cells, PINS)));
    let path = fleet.folder.path().join("router.sock");
    let mut predecessor = Stalled::open(&path, "router", ["data", "admin", "probes"]);
    let at = predecessor.at;
    let mut successor = follow(&fleet, "successor", at.map(|address| address.to_string()));
    predecessor.hands_sockets_on(&successor);
    test.block_on(async {
        ready(&mut successor, at[2]).await.unwrap();
        both_serve(&successor).await;
        assert_eq!(raw::ask(at[0], get("/", "acme")).await.status(), 200);
        assert!(successor.ended().is_none(), "{}", successor.log());
        // What no store keeps may be the other's to change.
        assert_eq!(set(at[1], "acme", 2).await.status(), 503);
    });
    predecessor.lets_go();
    test.block_on(async {
        eventually("a successor that makes changes", async || {
            (set(at[1], "acme", 2).await.status() != 503).then_some(())
        })
        .await;
        // It has the path now: another one follows it.
        let mut next = follow(&fleet, "next", at.map(|address| address.to_string()));
        assert_eq!(successor.end().await.code(), Some(0));
        ready(&mut next, at[2]).await.unwrap();
        assert_eq!(raw::ask(at[0], get("/", "acme")).await.status(), 200);
    });
}

/// A cell says when its predecessor cuts what is left, and that is known once the predecessor drains.
#[test]
fn a_cell_beside_a_stalled_predecessor_says_nothing_of_its_cut_until_that_hands_over() {
    let test = runtime();
    let fleet = test.block_on(RealFleet::start(2, &[], |cells| fleet(cells, PINS)));
    let [file, path] = ["fleet.yaml", "cell.sock"].map(|name| fleet.folder.path().join(name));
    let mut predecessor = Stalled::open(&path, "cell", ["data", "probes"]);
    let [data, probes] = predecessor.at.map(|address| address.to_string());
    let cell = ["cell", "--fleet", file.to_str().unwrap(), "--cell", "cell-a", "--drain-deadline", "60s"];
    let listen = ["--listen", &data, "--probe-listen", &probes, "--handover", path.to_str().unwrap()];
    let successor = Process::start(fleet.folder.path(), "successor", &[&cell[..], &listen].concat());
    predecessor.hands_sockets_on(&successor);
    let data = predecessor.at[0];
    let leaving_ms = async || {
        let answer = raw::ask(data, &get("/", "acme").replace("x-tenant-id", "cofferdam-tenant")).await;
        assert_eq!(answer.status(), 200);
        answer.field("cofferdam-leaving-ms").map(|ms| ms.parse::<u64>().unwrap())
    };
    test.block_on(async {
        both_serve(&successor).await;
        assert_eq!(leaving_ms().await, None);
    });
    predecessor.lets_go();
    let left = test.block_on(eventually("an answer that says when what is left is cut", leaving_ms));
    assert!((30_000..=60_000).contains(&left), "{left}");
}

/// A predecessor of this test's own, which runs no more than it is told to.
struct Stalled<const N: usize> {
    runtime: Runtime,
    offer: Offer,
    at: [SocketAddr; N],
    /// What the predecessor serves with; nobody accepts from it.
    _held: [OwnedFd; N],
}

impl<const N: usize> Stalled<N> {
    /// One that offers sockets of these names.
    fn open(path: &Path, role: &str, names: [&str; N]) -> Self {
        let named = names.map(|name| Named { name: name.to_owned(), listener: listen::one(ANY).unwrap() });
        let at = named.each_ref().map(|socket| socket.listener.local_addr().unwrap());
        let held = named.each_ref().map(|socket| socket.listener.as_fd().try_clone_to_owned().unwrap());
        let runtime = runtime();
        let offer = {
            let _entered = runtime.enter();
            Offer::open(path, role, named.into(), Ownership::default()).unwrap()
        };
        Self { runtime, offer, at, _held: held }
    }

    /// Runs until this successor has the sockets.
    fn hands_sockets_on(&self, successor: &Process) {
        let begun = Instant::now();
        while !successor.log().contains("serves on sockets that were open") {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", successor.log());
            // In short turns, so that it has stalled before the successor says that it serves.
            self.runtime.block_on(async {
                let turn = Duration::from_millis(1);
                tokio::time::sleep(turn).await;
            });
        }
    }

    /// Runs until a successor has followed.
    fn lets_go(&mut self) {
        self.runtime.block_on(self.offer.taken());
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn both_serve(successor: &Process) {
    eventually("a successor that says that both serve", async || {
        successor.log().contains("both serve until it does").then_some(())
    })
    .await;
}

/// A router that takes over at the fleet's path, with these addresses: data, admin and probes.
fn follow(fleet: &RealFleet, name: &str, [data, admin, probes]: [String; 3]) -> Process {
    let [file, path] = ["fleet.yaml", "router.sock"].map(|name| fleet.folder.path().join(name));
    let arguments = ["router", "--fleet", file.to_str().unwrap(), "--handover", path.to_str().unwrap()];
    let listen = ["--listen", &data, "--admin", &admin, "--probe-listen", &probes, "--workers", "1"];
    Process::start(fleet.folder.path(), name, &[&arguments[..], &listen].concat())
}

#[tokio::test]
async fn a_successor_that_cannot_offer_its_sockets_serves_all_the_same() {
    let mut fleet = start().await;
    let load = Load::start(fleet.data);
    // Where the successor's own socket would be made.
    std::fs::create_dir(fleet.folder.path().join("router.sock.new")).unwrap();
    let next = fleet.start_successor("next", &HANDOVER);
    let mut old = std::mem::replace(&mut fleet.router, next);
    assert_eq!(old.end().await.code(), Some(0));
    load.goes_on().await;
    load.end().await;
    assert!(fleet.router.ended().is_none(), "{}", fleet.router.log());
    assert!(fleet.router.log().contains("nobody can follow this process"), "{}", fleet.router.log());
}

#[tokio::test]
async fn a_successor_whose_flags_name_other_addresses_says_so_and_stays_where_it_is() {
    let mut fleet = start().await;
    let wanted = free_port();
    let [admin, probes] = [fleet.admin, fleet.probes].map(|address| address.to_string());
    let next = follow(&fleet, "moved", [wanted.to_string(), admin, probes]);
    let mut old = std::mem::replace(&mut fleet.router, next);
    assert_eq!(old.end().await.code(), Some(0));
    assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.status(), 200);
    let log = fleet.router.log();
    let told =
        format!("serves on {}, which was handed over, and not on {wanted}, as --listen says", fleet.data);
    assert!(log.contains(&told), "{log}");
    assert_eq!(log.matches("which was handed over").count(), 1, "{log}");
    // One that has them right says nothing.
    let next = fleet.start_successor("next", &HANDOVER);
    let mut old = std::mem::replace(&mut fleet.router, next);
    assert_eq!(old.end().await.code(), Some(0));
    assert_eq!(probe(fleet.probes, "/readyz").await, 200);
    assert!(!fleet.router.log().contains("which was handed over"), "{}", fleet.router.log());
}

/// A change of a tenant's limits.
async fn set(admin: SocketAddr, tenant: &str, burst: u64) -> Answer {
    let body = format!(r#"{{"burst": {burst}, "for": "1h"}}"#);
    tell(admin, "PUT", &format!("/tenants/{tenant}/limits"), &body).await
}

const WITH_STATE: [&str; 4] = ["--handover", "FOLDER/router.sock", "--state", "FOLDER/state"];

#[tokio::test]
async fn from_when_its_sockets_are_handed_on_a_router_without_a_store_changes_nothing_unless_nobody_follows()
{
    let fleet = RealFleet::start(2, &WITH_STATE, fleet_with_plan).await;
    assert_eq!(set(fleet.admin, "acme", 2).await.status(), 200);
    let claimed = claim(&fleet.folder.path().join("router.sock"), "router").await.unwrap().unwrap();
    let refused = set(fleet.admin, "acme", 3).await;
    assert_eq!((refused.status(), refused.field("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.text().starts_with("another process takes this one's place"), "{refused:?}");
    drop(claimed);
    eventually("a change once nobody follows", async || {
        (set(fleet.admin, "acme", 4).await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_that_was_made_without_a_store_is_lost_in_a_handover() {
    let mut fleet = RealFleet::start(2, &WITH_STATE, fleet_with_plan).await;
    let (over, admin) = (Arc::<AtomicBool>::default(), fleet.admin);
    let mut operators = JoinSet::new();
    for operator in 0..4 {
        let over = Arc::clone(&over);
        operators.spawn(async move {
            let mut made = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let tenant = format!("t{operator}-{}", made.len());
                match set(admin, &tenant, 2).await.status() {
                    200 => made.push(tenant),
                    503 => {}
                    other => panic!("{other}"),
                }
            }
            made
        });
    }
    for n in 0..5 {
        let next = fleet.start_successor(&format!("next{n}"), &WITH_STATE);
        let mut old = std::mem::replace(&mut fleet.router, next);
        assert_eq!(old.end().await.code(), Some(0));
    }
    over.store(true, Ordering::Relaxed);
    let made: Vec<_> = operators.join_all().await.into_iter().flatten().collect();
    assert!(made.len() > 20, "{made:?}");
    for tenant in made {
        let shown = tell(admin, "GET", &format!("/tenants/{tenant}/limits"), "").await;
        let shown: serde_json::Value = serde_json::from_slice(&shown.body).unwrap();
        assert_eq!(shown["override"]["burst"], 2, "{tenant}: {shown:#}");
    }
}

fn fleet_with_plan(cells: &[SocketAddr]) -> String {
    fleet(
        cells,
        "plans: { free: { sustained: 1/s, burst: 1k, max_in_flight: 10 } }\ntenant: { unknown: free }\n",
    )
}
