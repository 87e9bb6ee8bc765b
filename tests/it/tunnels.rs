//! Tunnels: when a request becomes one, what goes through it, what it holds, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_router::Settings;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, alone, cell_id};
use crate::support::message::{Head, read_head};
use crate::support::processes::{Process, RealFleet};
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Refusing, Scripted, answer};
use crate::support::{ANY, eventually, within};

pub(crate) const ASKING: &str = "connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a2V5\r\n\
                      sec-websocket-version: 13\r\nsec-websocket-protocol: chat\r\n";

pub(crate) const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\
                      sec-websocket-accept: YWNj\r\nsec-websocket-protocol: chat\r\n\r\n";

fn ask(path: &str) -> String {
    with_fields("GET", path, "acme", ASKING)
}

/// Switches and says hello in one write; then, by path: `/echo` echoes to the end, `/last` reads to the end and has the
/// last word, `/first` ends its own side first and keeps what comes, `/gone` closes, `/hold` waits.
async fn switch(stream: TcpStream, noted: Arc<Noted>) {
    let mut stream = BufReader::new(stream);
    let Ok(Some(head)) = read_head(&mut stream).await else { return };
    let path = head.second_word().to_owned();
    noted.heads.lock().unwrap().push(head);
    if stream.write_all(&[SWITCH.as_bytes(), b"hello"].concat()).await.is_err() {
        return;
    }
    let mut came = Vec::new();
    match path.as_str() {
        "/last" => {
            stream.read_to_end(&mut came).await.unwrap();
            stream.write_all(b"goodbye").await.unwrap();
        }
        "/first" => {
            stream.shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut came).await;
        }
        "/gone" => {}
        "/hold" => {
            let _ = stream.read_to_end(&mut came).await;
        }
        _ => {
            let mut room = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut room).await {
                if stream.write_all(&room[..n]).await.is_err() {
                    break;
                }
            }
        }
    }
    *noted.came.lock().unwrap() = came;
    noted.closed.add_permits(1);
}

/// What a backend knows of its tunnels.
#[derive(Debug)]
pub(crate) struct Noted {
    heads: std::sync::Mutex<Vec<Head>>,
    came: std::sync::Mutex<Vec<u8>>,
    /// One for each connection that has ended.
    closed: Semaphore,
}

impl Noted {
    pub(crate) async fn closed(&self) {
        within("a backend's connection to end", self.closed.acquire()).await.unwrap().forget();
    }
}

async fn backend() -> (Scripted, Arc<Noted>) {
    let noted =
        Arc::new(Noted { heads: Default::default(), came: Default::default(), closed: Semaphore::new(0) });
    let shared = Arc::clone(&noted);
    (Scripted::raw(move |stream, _| switch(stream, Arc::clone(&shared))).await, noted)
}

/// A router, two agents, and backends that switch.
pub(crate) async fn fleet(rest: &str) -> (TestFleet, Arc<Noted>) {
    let ((home, noted), (other, _)) = (backend().await, backend().await);
    (TestFleet::before(&format!("{PINS}{rest}"), [home, other]).await, noted)
}

/// A tunnel that is open, and has said hello.
pub(crate) async fn open(router: &TestRouter, path: &str) -> raw::Client {
    let mut client = raw::Client::connect(router.data).await;
    client.send(ask(path)).await;
    assert_eq!(client.head().await.second_word(), "101");
    assert_eq!(client.bytes(5).await, b"hello");
    client
}

#[tokio::test]
async fn a_tunnel_goes_both_ways_through_router_and_agent_and_loses_no_early_byte() {
    let (fleet, noted) = fleet("").await;
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(ask("/echo") + "early").await;
    let head = client.head().await;
    assert_eq!(head.second_word(), "101");
    assert_eq!((head.field("connection"), head.field("upgrade")), (Some("upgrade"), Some("websocket")));
    assert_eq!(head.field("sec-websocket-accept"), Some("YWNj"));
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    assert_eq!(client.bytes(10).await, b"helloearly");
    for n in 0..20 {
        let text = format!("message {n}");
        client.send(&text).await;
        assert_eq!(client.bytes(text.len()).await, text.as_bytes());
    }
    let at_backend = noted.heads.lock().unwrap()[0].clone();
    assert_eq!(
        (at_backend.field("connection"), at_backend.field("upgrade")),
        (Some("upgrade"), Some("websocket"))
    );
    assert_eq!(at_backend.field("sec-websocket-key"), Some("a2V5"));
    assert_eq!(at_backend.field("cofferdam-tenant"), Some("acme"));
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_tunnels_open", &[]), 1.0);
    assert_eq!(metrics.sum("cofferdam_limits_in_flight", &[]), 1.0);
    assert_eq!(fleet.cells[0].in_use("").await, 1.0);
    drop(client);
    noted.closed().await;
    fleet.idle().await;
    let (router, agent) = (fleet.router.metrics().await, fleet.cells[0].metrics().await);
    let up: usize = 5 + (0..20).map(|n| format!("message {n}").len()).sum::<usize>();
    for (metrics, who) in [(&router, "router"), (&agent, "agent")] {
        let bytes = format!("cofferdam_{who}_tunnel_bytes_total");
        assert_eq!(metrics.sum(&bytes, &["direction=\"up\""]), up as f64, "{who}");
        assert_eq!(metrics.sum(&bytes, &["direction=\"down\""]), (up + 5) as f64, "{who}");
        assert_eq!(metrics.sum(&format!("cofferdam_{who}_tunnels_open"), &[]), 0.0, "{who}");
        assert_eq!(metrics.sum(&format!("cofferdam_{who}_tunnels_total"), &["end=\"closed\""]), 1.0, "{who}");
    }
    assert_eq!(router.sum("cofferdam_router_requests_total", &["outcome=\"success\""]), 1.0);
    assert_eq!(agent.sum("cofferdam_agent_requests_total", &["outcome=\"served\""]), 1.0);
}

#[tokio::test]
async fn the_end_of_one_side_is_passed_on_and_the_other_goes_on() {
    let (fleet, noted) = fleet("").await;
    let mut client = open(&fleet.router, "/last").await;
    client.send("my last").await;
    client.half_close().await;
    assert_eq!(client.rest().await, b"goodbye");
    noted.closed().await;
    assert_eq!(*noted.came.lock().unwrap(), b"my last");
    fleet.idle().await;

    let mut client = open(&fleet.router, "/first").await;
    assert_eq!(client.rest().await, b"");
    assert_eq!(fleet.router.metrics().await.sum("cofferdam_router_tunnels_open", &[]), 1.0);
    client.send("after your end").await;
    client.half_close().await;
    noted.closed().await;
    assert_eq!(*noted.came.lock().unwrap(), b"after your end");
    fleet.idle().await;
}

#[tokio::test]
async fn what_a_tunnel_holds_is_held_until_both_sides_have_closed() {
    let one =
        "plans: { one: { sustained: 1000/s, burst: 1000, max_in_flight: 1 } }\ntenant: { unknown: one }\n";
    let (fleet, noted) = fleet(one).await;
    let client = open(&fleet.router, "/hold").await;
    let refused = fleet.router.ask(ask("/hold")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (429, "tenant_concurrency"));
    drop(client);
    noted.closed().await;
    fleet.idle().await;
    drop(open(&fleet.router, "/hold").await);
    fleet.idle().await;
}

#[tokio::test]
async fn a_compartment_that_a_tunnel_fills_refuses_the_next_in_the_usual_way() {
    // P2
    let one = "cell: { tenant_share: 1, classes: { default: { ceiling: 1, queue: 0 } } }\n";
    let (fleet, _) = fleet(one).await;
    // The first fills the home, and says so; the second goes to the other cell.
    let clients = [open(&fleet.router, "/hold").await, open(&fleet.router, "/hold").await];
    let refused = fleet.router.ask(ask("/hold")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (503, "cell_class"));
    drop(clients);
    fleet.idle().await;
}

#[tokio::test]
async fn an_answer_other_than_a_switch_is_a_plain_answer() {
    let plain = || {
        Scripted::start(|seen| match seen.head.second_word() {
            "/426" => {
                let fields = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
                Play::Answer(answer("426 Upgrade Required", fields, "another version"))
            }
            path => Play::Answer(answer(&format!("{} Plain", &path[1..]), "", "why")),
        })
    };
    let fleet = TestFleet::before(PINS, [plain().await, plain().await]).await;
    let mut client = raw::Client::connect(fleet.router.data).await;
    for status in [200, 400, 403, 503] {
        let answer = client.ask(ask(&format!("/{status}"))).await;
        assert_eq!((answer.status(), answer.text().as_str()), (status, "why"));
        assert_eq!(answer.field("upgrade"), None);
    }
    let answer = client.ask(ask("/426")).await;
    assert_eq!((answer.status(), answer.text().as_str()), (426, "another version"));
    assert_eq!(
        (answer.field("upgrade"), answer.field("sec-websocket-version")),
        (Some("websocket"), Some("13"))
    );
    fleet.idle().await;
    assert_eq!(fleet.router.metrics().await.sum("cofferdam_router_tunnels_total", &[]), 0.0);
}

#[tokio::test]
async fn a_switch_that_was_not_asked_for_or_is_to_something_else_is_502() {
    let switch = |protocol: &str| {
        format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n")
            .into_bytes()
    };
    for (request, protocol) in [
        (ask("/"), "h2c"),
        (ask("/"), "websocket, h2c"),
        (get("/", "acme"), "websocket"),
        (with_fields("POST", "/", "acme", ASKING), "websocket"),
    ] {
        let answer = switch(protocol);
        let cell = Scripted::start(move |_| Play::Answer(answer.clone())).await;
        let router = TestRouter::start(&alone(cell.address, ""));
        let answer = router.ask(&request).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (502, "cell_malformed"), "{request}");
        router.idle().await;
        assert_eq!(cell.n_connections(), 1, "it is not tried again");
    }
}

#[tokio::test]
async fn what_is_no_get_of_http11_for_websocket_is_served_as_a_plain_request() {
    let cell = Scripted::named("plain").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    for request in [
        with_fields("GET", "/", "acme", "connection: upgrade\r\nupgrade: h2c\r\n"),
        with_fields("GET", "/", "acme", "upgrade: websocket\r\n"),
        with_fields("GET", "/", "acme", "connection: upgrade\r\n"),
        with_fields("GET", "/", "acme", "connection: upgrade, close\r\nupgrade: websocket\r\n"),
        with_fields("POST", "/", "acme", ASKING),
        with_fields("GET", "/", "acme", &format!("{ASKING}content-length: 4\r\n")) + "body",
        ask("/").replace("HTTP/1.1", "HTTP/1.0"),
    ] {
        let answer = router.ask(&request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "plain"), "{request}");
        let seen = cell.seen().pop().unwrap();
        assert_eq!((seen.head.field("upgrade"), seen.head.field("connection")), (None, None), "{request}");
    }
}

#[tokio::test]
async fn a_cell_that_takes_no_connection_costs_a_tunnel_nothing() {
    let (cell, _) = backend().await;
    let refusing = Refusing::new();
    let addresses = [refusing.address, cell.address];
    let router = TestRouter::start(&crate::support::files::fleet(&addresses, PINS));
    drop(open(&router, "/hold").await);
    router.idle().await;
}

#[tokio::test]
async fn a_client_that_dies_takes_its_tunnel_with_it() {
    let (fleet, noted) = fleet("").await;
    let client = open(&fleet.router, "/hold").await;
    client.reset();
    noted.closed().await;
    fleet.idle().await;
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"client_gone\""]), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_tunnels_total", &["end=\"client_lost\""]), 1.0);
}

#[tokio::test]
async fn an_agent_that_is_killed_ends_its_tunnels_and_gives_the_permits_back() {
    let (backend, noted) = backend().await;
    let folder = tempfile::tempdir().unwrap();
    let listen = std::net::TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let text = alone(listen, "");
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, &text).unwrap();
    let (listen, origin, id) = (listen.to_string(), format!("http://{}", backend.address), cell_id(0));
    let probes = std::net::TcpListener::bind(ANY).unwrap().local_addr().unwrap().to_string();
    let arguments = ["agent", "--fleet", file.to_str().unwrap(), "--cell", &id, "--listen", &listen];
    let arguments = [&arguments[..], &["--backend", &origin, "--probe-listen", &probes]].concat();
    let agent = Process::start(folder.path(), "agent", &arguments);
    eventually("the agent to listen", async || TcpStream::connect(&listen).await.ok()).await;
    let router = TestRouter::start(&text);
    let mut client = open(&router, "/echo").await;
    agent.signal(Signal::KILL);
    assert_eq!(client.rest().await, b"");
    noted.closed().await;
    drop(client);
    router.idle().await;
}

#[tokio::test]
async fn a_tunnel_goes_on_through_a_drain_until_it_is_cut() {
    let (cell, noted) = backend().await;
    let settings = Settings { drain_deadline: Duration::from_secs(1), ..settings() };
    let router = TestRouter::with(&alone(cell.address, ""), settings, 1);
    let mut client = open(&router, "/echo").await;
    let data = router.data;
    let leaving = tokio::spawn(router.router.shutdown());
    let refused = async || TcpStream::connect(data).await.is_err().then_some(());
    eventually("new connections to be refused", refused).await;
    client.send("still here").await;
    assert_eq!(client.bytes(10).await, b"still here");
    assert_eq!(client.rest().await, b"");
    within("the router to leave", leaving).await.unwrap();
    noted.closed().await;
}

#[tokio::test]
async fn a_tunnel_that_ends_during_a_drain_lets_the_router_leave() {
    let (cell, noted) = backend().await;
    let settings = Settings { drain_deadline: Duration::from_secs(60), ..settings() };
    let router = TestRouter::with(&alone(cell.address, ""), settings, 1);
    let client = open(&router, "/echo").await;
    let leaving = tokio::spawn(router.router.shutdown());
    drop(client);
    within("the router to leave", leaving).await.unwrap();
    noted.closed().await;
}

#[tokio::test]
async fn a_switch_that_comes_during_a_drain_is_refused() {
    // P31
    let (asked, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (has_asked, may_go_on) = (Arc::clone(&asked), Arc::clone(&go_on));
    let cell = Scripted::raw(move |mut stream: TcpStream, _| {
        let (asked, go_on) = (Arc::clone(&has_asked), Arc::clone(&may_go_on));
        async move {
            read_head(&mut BufReader::new(&mut stream)).await.unwrap();
            asked.add_permits(1);
            go_on.acquire().await.unwrap().forget();
            stream.write_all(SWITCH.as_bytes()).await.unwrap();
            let _ = stream.read(&mut [0]).await;
            asked.add_permits(1);
        }
    })
    .await;
    let router = TestRouter::start(&alone(cell.address, ""));
    let mut client = raw::Client::connect(router.data).await;
    client.send(ask("/")).await;
    within("the cell to be asked", asked.acquire()).await.unwrap().forget();
    let data = router.data;
    let leaving = tokio::spawn(router.router.shutdown());
    let refused = async || TcpStream::connect(data).await.is_err().then_some(());
    eventually("new connections to be refused", refused).await;
    go_on.add_permits(1);
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.field("retry-after")), (503, Some("1")));
    assert_eq!((answer.field("connection"), answer.field("upgrade")), (Some("close"), None));
    within("the cell's connection to be closed", asked.acquire()).await.unwrap().forget();
    within("the router to leave", leaving).await.unwrap();
}

#[tokio::test]
async fn how_many_tunnels_a_drain_cut_is_logged() {
    let (cell, noted) = backend().await;
    let flags = ["--drain-deadline", "200ms", "--workers", "1"];
    let mut fleet = RealFleet::start(0, &flags, |_| alone(cell.address, "")).await;
    let mut client = raw::Client::connect(fleet.data).await;
    client.send(ask("/hold")).await;
    assert_eq!(client.head().await.second_word(), "101");
    fleet.router.signal(Signal::TERM);
    assert!(fleet.router.end().await.success());
    assert_eq!(client.rest().await, b"hello");
    noted.closed().await;
    let log = fleet.router.log();
    assert!(log.contains("in_flight=1") && log.contains("tunnels=1"), "{log}");
}
