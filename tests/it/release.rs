//! A changed file whose slots are let loose in waves: the same slots at every router, stopped and continued by one word, over
//! restarts of routers and of what the store knows.

mod again;
mod handover;
mod outages;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_limits::redis::Fleet;
use cofferdam_router::{Settings, SharedStore};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::files::{fleet, revision};
use crate::support::processes::run;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;

const N_TENANTS: usize = 150;

/// Nine cells that answer with their names.
async fn cells() -> Vec<Scripted> {
    Scripted::cells(9).await
}

/// A file with the first `n` of the cells, whose change may move so many slots a minute.
fn file(number: u64, cells: &[Scripted], n: usize, budget: &str) -> String {
    let addresses: Vec<_> = cells[..n].iter().map(|cell| cell.address).collect();
    revision(number, &addresses, &format!("placement: {{ movement_budget: {budget} }}\n"))
}

/// A file of one router's, which needs no store to count.
fn alone(text: &str) -> String {
    format!("{text}limits: {{ routers: 1 }}\n")
}

/// Next to nothing, and everything.
pub(crate) const SLOWLY: &str = "1/min";
pub(crate) const AT_ONCE: &str = "1000M/min";

fn shared(server: &RedisServer, state: Option<PathBuf>) -> Settings {
    let budget = Duration::from_millis(100);
    let store = Some(SharedStore { endpoint: server.url().parse().unwrap(), budget });
    Settings { store, state, ..settings() }
}

async fn start(text: &str, settings: Settings) -> TestRouter {
    TestRouter::that_looks(text, settings).await.unwrap()
}

/// Everybody's cells, as a router has them.
async fn shards(router: &TestRouter) -> BTreeMap<String, Value> {
    let mut shards = BTreeMap::new();
    for n in 0..N_TENANTS {
        let tenant = format!("tenant-{n}");
        let view = router.admin(&format!("/tenants/{tenant}")).await;
        shards.insert(tenant, view["shard"].clone());
    }
    shards
}

/// The same, as `cofferdam place` tells it of a file.
fn placed(text: &str) -> BTreeMap<String, Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.yaml");
    std::fs::write(&path, text).unwrap();
    let tenants: Vec<_> = (0..N_TENANTS).map(|n| format!("tenant-{n}")).collect();
    let arguments = ["place", "--fleet", path.to_str().unwrap(), "--output", "json"].into_iter();
    let arguments: Vec<_> = arguments.chain(tenants.iter().map(String::as_str)).collect();
    let rows: Value = serde_json::from_slice(&run(&arguments).stdout).unwrap();
    let row = |row: &Value| (row["tenant"].as_str().unwrap().to_owned(), row["shard"].clone());
    rows.as_array().unwrap().iter().map(row).collect()
}

async fn standing(router: &TestRouter) -> Value {
    router.admin("/placement/release").await["release"].clone()
}

async fn order(router: &TestRouter, order: &str) -> (u16, String) {
    let request = format!(
        "POST /placement/release/{order} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"
    );
    let answer = raw::ask(router.admin, request).await;
    (answer.status(), answer.text())
}

/// Gives an order until the store has heard it.
async fn ordered(router: &TestRouter, what: &str) -> Value {
    eventually(what, async || {
        let (status, text) = order(router, what).await;
        (status == 200).then(|| serde_json::from_str::<Value>(&text).unwrap()["release"].clone())
    })
    .await
}

/// Waits until the router's release has so many slots loose, at least.
async fn loose(router: &TestRouter, n: u64) {
    eventually(&format!("{n} slots are loose"), async || {
        (standing(router).await["n_loose"].as_u64()? >= n).then_some(())
    })
    .await;
}

/// Waits until the store has the release.
async fn told(server: &RedisServer) {
    let key = Fleet::parse("test").unwrap().release();
    eventually("the store's release", async || {
        let exists = redis::cmd("EXISTS").arg(key.as_str()).query(&mut server.connect()).unwrap();
        if exists { Some(()) } else { None }
    })
    .await;
}

/// Sees no slot move for as long as it takes to look a few times.
async fn rested(routers: &[&TestRouter], n_loose: &Value, at: &BTreeMap<String, Value>) {
    tokio::time::sleep(Duration::from_millis(1700)).await;
    for router in routers {
        assert_eq!((&standing(router).await["n_loose"], &shards(router).await), (n_loose, at));
    }
}

async fn over(router: &TestRouter) {
    eventually("the end of the release", async || standing(router).await.is_null().then_some(())).await;
}

#[tokio::test]
async fn a_change_waits_slot_by_slot_is_stopped_and_goes_on_at_every_router() {
    let (cells, server) = (cells().await, RedisServer::start());
    let old = file(1, &cells, 8, SLOWLY);
    let routers = [start(&old, shared(&server, None)).await, start(&old, shared(&server, None)).await];
    let (before, after) = (placed(&old), placed(&file(2, &cells, 9, SLOWLY)));
    for router in &routers {
        router.reload(&file(2, &cells, 9, SLOWLY)).await.unwrap();
        assert_eq!(shards(router).await, before);
        assert_eq!(router.admin("/fleet").await["revision"], 2);
    }
    // Requests as well.
    let waits = after.iter().find(|(tenant, shard)| before[*tenant][0] != shard[0]).unwrap().0;
    assert_eq!(routers[0].ask(get("/", waits)).await.text(), before[waits][0].as_str().unwrap());
    assert_eq!(routers[0].admin(&format!("/tenants/{waits}")).await["waits_for_release"], true);

    // At the same revision the budget may change: it is no part of the table.
    let faster = file(2, &cells, 9, "1000/s");
    for router in &routers {
        router.reload(&faster).await.unwrap();
    }
    loose(&routers[1], 1000).await;
    let stopped = ordered(&routers[1], "stop").await;
    assert_eq!((&stopped["stopped"], &stopped["ends_in_s"]), (&json!(true), &Value::Null));
    eventually("the other router's stop", async || {
        (standing(&routers[0]).await["n_loose"] == stopped["n_loose"]).then_some(())
    })
    .await;
    let half = shards(&routers[0]).await;
    assert_eq!(half, shards(&routers[1]).await);
    assert!(half != before && half != after);
    for (tenant, shard) in &half {
        assert!(*shard == before[tenant] || *shard == after[tenant], "{tenant}");
    }
    let metrics = routers[0].metrics().await;
    let slots = |name: &str| metrics.sum(&format!("cofferdam_router_release_{name}"), &[]);
    assert_eq!(slots("stopped"), 1.0);
    let n_loose = stopped["n_loose"].as_f64().unwrap();
    assert_eq!(slots("slots") - slots("slots_waiting"), n_loose);

    let gone_on = ordered(&routers[0], "go").await;
    assert_eq!((&gone_on["stopped"], gone_on["n_loose"].as_f64() >= Some(n_loose)), (&json!(false), true));
    for router in &routers {
        router.reload(&file(2, &cells, 9, AT_ONCE)).await.unwrap();
        over(router).await;
        assert_eq!(shards(router).await, after);
        assert_eq!(order(router, "stop").await.0, 409);
    }
}

#[tokio::test]
async fn the_next_change_waits_for_the_one_before_and_the_way_back_is_always_open() {
    let (cells, server) = (cells().await, RedisServer::start());
    let old = file(1, &cells, 7, SLOWLY);
    let router = start(&old, shared(&server, None)).await;
    router.reload(&file(2, &cells, 8, "1000/s")).await.unwrap();
    loose(&router, 100).await;
    ordered(&router, "stop").await;
    let error = router.reload(&file(3, &cells, 9, SLOWLY)).await.unwrap_err();
    assert!(error.contains("the change before is still being released"), "{error}");
    // What is no change of the table is taken, and the release stays as it is.
    let n_loose = standing(&router).await["n_loose"].clone();
    router.reload(&format!("{}cell: {{ max_in_flight: 9 }}\n", file(3, &cells, 8, SLOWLY))).await.unwrap();
    assert_eq!(
        (&standing(&router).await["n_loose"], &standing(&router).await["stopped"]),
        (&n_loose, &json!(true))
    );
    // Back to the file before, at once.
    router.reload(&file(4, &cells, 7, SLOWLY)).await.unwrap();
    assert_eq!((standing(&router).await, shards(&router).await), (Value::Null, placed(&old)));
    // Forth again, from the beginning on: neither how far it was counts, nor that it was stopped. And by force to the next one.
    router.reload(&file(5, &cells, 8, "60/min")).await.unwrap();
    loose(&router, 1).await;
    let again = standing(&router).await;
    assert!(again["n_slots"].as_u64() > Some(1000) && again["n_loose"].as_u64() < Some(30), "{again}");
    let next = file(6, &cells, 9, "1/min, max_inclusion: 0.01, force: now");
    router.reload(&next).await.unwrap();
    assert_eq!((standing(&router).await, shards(&router).await), (Value::Null, placed(&next)));
}

#[tokio::test]
async fn a_release_outlives_a_router_and_what_the_store_knows() {
    let (cells, server, folder) = (cells().await, RedisServer::start(), tempfile::tempdir().unwrap());
    let state = || Some(folder.path().join("state"));
    let (old, new) = (file(1, &cells, 8, SLOWLY), file(2, &cells, 9, "1000/s"));
    let routers = [start(&old, shared(&server, state())).await, start(&old, shared(&server, None)).await];
    for router in &routers {
        router.reload(&new).await.unwrap();
    }
    loose(&routers[0], 1000).await;
    let n_loose = ordered(&routers[0], "stop").await["n_loose"].clone();
    eventually("the other's stop", async || {
        (standing(&routers[1]).await["n_loose"] == n_loose).then_some(())
    })
    .await;
    let half = shards(&routers[1]).await;
    let [first, second] = routers;
    eventually("the file on disk", async || {
        let text = std::fs::read_to_string(folder.path().join("state/accepted.json")).ok()?;
        text.contains("\"from\"").then_some(())
    })
    .await;
    first.router.shutdown().await;
    // It goes on where it was from its first request on; so does one that has no disk.
    for state in [state(), None] {
        let again = start(&new, shared(&server, state)).await;
        assert_eq!((&standing(&again).await["n_loose"], shards(&again).await), (&n_loose, half.clone()));
    }
    // A store that has forgotten is told by those who know: how far it was, and that it was stopped.
    second.reload(&file(2, &cells, 9, AT_ONCE)).await.unwrap();
    let flushed: String = redis::cmd("FLUSHALL").query(&mut server.connect()).unwrap();
    assert_eq!(flushed, "OK");
    let start_late = async || start(&file(2, &cells, 9, AT_ONCE), shared(&server, state())).await;
    told(&server).await;
    rested(&[&second, &start_late().await], &n_loose, &half).await;
    assert_eq!(ordered(&second, "go").await["stopped"], false);
    over(&second).await;
    assert_eq!(shards(&second).await, placed(&new));
    // Once it is over nobody begins it anew.
    eventually("a start without a release", async || {
        let late = start(&file(2, &cells, 9, SLOWLY), shared(&server, state())).await;
        standing(&late).await.is_null().then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_a_store_only_a_router_that_is_alone_counts_by_itself() {
    let cells = cells().await;
    let router = TestRouter::start(&file(1, &cells, 8, SLOWLY));
    let error = router.reload(&file(2, &cells, 9, SLOWLY)).await.unwrap_err();
    assert!(
        error.contains("movement_budget needs a store that all routers share, or limits.routers: 1"),
        "{error}"
    );
    let of = |number, n, budget| alone(&file(number, &cells, n, budget));
    router.reload(&of(2, 9, "1000/s")).await.unwrap();
    loose(&router, 100).await;
    let n_loose = ordered(&router, "stop").await["n_loose"].clone();
    router.reload(&of(2, 9, AT_ONCE)).await.unwrap();
    assert_eq!(standing(&router).await["n_loose"], n_loose);
    ordered(&router, "go").await;
    over(&router).await;
    assert_eq!(shards(&router).await, placed(&of(2, 9, SLOWLY)));
}

#[tokio::test]
async fn the_command_shows_stops_and_continues_it() {
    let cells = cells().await;
    let with = |number, n, budget| alone(&file(number, &cells, n, budget));
    let router = TestRouter::start(&with(1, 8, SLOWLY));
    let admin = format!("http://{}", router.admin);
    let release = async |order: &'static str| {
        let admin = admin.clone();
        let done =
            tokio::task::spawn_blocking(move || run(&["rollout", order, "--admin", &admin])).await.unwrap();
        (
            done.status.success(),
            String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap(),
        )
    };
    assert_eq!(release("show").await, (true, "no release is under way\n".to_owned()));
    assert_eq!(release("stop").await, (false, "cofferdam: no release is under way\n".to_owned()));
    router.reload(&with(2, 9, "6/min")).await.unwrap();
    let (_, shown) = release("show").await;
    assert!(shown.starts_with("revision 2: ") && shown.contains("6 a minute, over in"), "{shown}");
    let (is_done, shown) = release("stop").await;
    assert!(is_done && shown.contains("stopped: `cofferdam rollout go` lets it go on"), "{shown}");
    let (is_done, shown) = release("go").await;
    assert!(is_done && shown.contains("6 a minute"), "{shown}");
}

#[tokio::test]
async fn a_file_without_a_budget_moves_all_at_once() {
    let cells = cells().await;
    let of = |number, n: usize| {
        let addresses: Vec<_> = cells[..n].iter().map(|cell| cell.address).collect();
        if number == 1 { fleet(&addresses, "") } else { revision(number, &addresses, "") }
    };
    let router = TestRouter::start(&of(1, 8));
    router.reload(&of(2, 9)).await.unwrap();
    assert_eq!((standing(&router).await, shards(&router).await), (Value::Null, placed(&of(2, 9))));
}
