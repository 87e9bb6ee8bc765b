//! Cells and backends that are known by name, and cells that are believed down: where requests and probes go.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use cofferdam_agent as agent;
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use cofferdam_proxy::upstream::{Lookup, Names, Pace, UpstreamLimits};
use cofferdam_router::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::files::alone;
use crate::support::processes::{EXE, Process, free_port, probe};
use crate::support::raw::{self, get};
use crate::support::routers::{TestRouter, parse, settings};
use crate::support::scripted::{Refusing, Scripted, ok};
use crate::support::{ANY, eventually};

/// Leads every name to 127.0.0.N.
#[derive(Debug, Clone)]
struct Leads(Arc<(AtomicU8, AtomicUsize)>);

impl Leads {
    fn to(last: u8) -> (Self, Names) {
        let leads = Self(Arc::new((AtomicU8::new(last), AtomicUsize::new(0))));
        let pace = Pace { every: Duration::from_millis(10), least: Duration::from_millis(5) };
        (leads.clone(), Names::new(leads, pace))
    }

    async fn now_to(&self, last: u8) {
        self.0.0.store(last, Ordering::SeqCst);
        let before = self.0.1.load(Ordering::SeqCst);
        let heard = async || (self.0.1.load(Ordering::SeqCst) >= before + 2).then_some(());
        eventually("the name to be resolved again", heard).await;
    }
}

impl Lookup for Leads {
    fn lookup(&self, _: Arc<str>) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let last = self.0.0.load(Ordering::SeqCst);
        Box::pin(async move { Ok(vec![Ipv4Addr::new(127, 0, 0, last).into()]) })
    }
}

/// Answers on its port of 127.0.0.2 and 127.0.0.3 by the host's name; the first one falls silent once `has_vanished`, as a machine
/// does that is switched off.
async fn two_hosts(has_vanished: &Arc<AtomicBool>) -> u16 {
    let (first, second, port) = loop {
        let first = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        if let Ok(second) = TcpListener::bind(("127.0.0.3", port)).await {
            break (first, second, port);
        }
    };
    for (listener, name, vanishes) in [(first, "first", true), (second, "second", false)] {
        let has_vanished = Arc::clone(has_vanished);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let has_vanished = Arc::clone(&has_vanished);
                tokio::spawn(answer(stream, name, move || vanishes && has_vanished.load(Ordering::SeqCst)));
            }
        });
    }
    port
}

async fn answer(mut stream: TcpStream, name: &'static str, is_silent: impl Fn() -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer).await {
        if is_silent() {
            std::future::pending::<()>().await;
        }
        let _ = stream.write_all(&ok(name)).await;
    }
}

fn kept_for_ever(settings: Settings) -> Settings {
    Settings { upstream: UpstreamLimits { idle: Duration::from_hours(1), ..settings.upstream }, ..settings }
}

#[tokio::test]
async fn a_cell_that_comes_back_elsewhere_is_asked_there_and_no_request_waits_for_where_it_was() {
    let has_vanished = Arc::<AtomicBool>::default();
    let (port, probes) = (two_hosts(&has_vanished).await, two_hosts(&has_vanished).await);
    let (leads, names) = Leads::to(2);
    let text = format!(
        "fleet: test\ncells: [{{ id: cell-a, url: 'http://cell.test:{port}', probe: 'http://cell.test:{probes}' }}]\n\
         placement: {{ shard_size: 1 }}\n"
    );
    let router = TestRouter::with(&text, Settings { names, ..kept_for_ever(settings()) }, 1);
    for _ in 0..3 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "first");
    }
    has_vanished.store(true, Ordering::SeqCst);
    leads.now_to(3).await;
    for _ in 0..3 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    }
    // Its probe is asked there as well: the one that has vanished would fail it.
    let up = async || (router.metrics().await.sum("cofferdam_router_cell_up", &[]) == 1.0).then_some(());
    eventually("the cell to be up", up).await;
}

#[tokio::test]
async fn a_backend_that_comes_back_elsewhere_is_asked_there() {
    let has_vanished = Arc::<AtomicBool>::default();
    let port = two_hosts(&has_vanished).await;
    let (leads, names) = Leads::to(2);
    let (data, probes) = (listen::one(ANY).unwrap(), listen::one(ANY).unwrap());
    let at = data.local_addr().unwrap();
    let backend = format!("http://backend.test:{port}").parse().unwrap();
    let usual = agent::Settings::new(CellId::parse("cell-a").unwrap(), backend);
    let upstream = UpstreamLimits { idle: Duration::from_hours(1), ..usual.upstream };
    let settings = agent::Settings { names, upstream, ..usual };
    let listeners = agent::Listeners { data: vec![data], probes: Some(probes), admin: None };
    let _agent = agent::Agent::start(&parse(&alone(at, "")), settings, listeners).unwrap();
    let ask = async || {
        let head = "GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n\r\n";
        raw::ask(at, head).await.text()
    };
    assert_eq!(ask().await, "first");
    has_vanished.store(true, Ordering::SeqCst);
    leads.now_to(3).await;
    assert_eq!(ask().await, "second");
}

#[tokio::test]
async fn idle_connections_to_a_cell_that_is_believed_down_close() {
    let closed = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&closed);
    let cell = Scripted::raw(move |stream, _| {
        let closed = Arc::clone(&counter);
        async move {
            answer(stream, "one", || false).await;
            closed.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let gone = Refusing::new();
    let text = alone(cell.address, "");
    let url = format!("url: \"http://{}\"", cell.address);
    let probed = text.replace(&url, &format!("{url}, probe: \"http://{}\"", gone.address));
    // Its probe fails only once a connection is kept.
    let router = TestRouter::with(&text, kept_for_ever(settings()), 1);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "one");
    assert_eq!(closed.load(Ordering::SeqCst), 0);
    router.reload(&probed).await.unwrap();
    let is_closed = async || (closed.load(Ordering::SeqCst) == 1).then_some(());
    eventually("the idle connection to close", is_closed).await;
}

/// The same with the system's resolver, whose file of hosts changes under a process of the command.
#[tokio::test]
async fn a_router_follows_the_systems_resolver() {
    let has_vanished = Arc::<AtomicBool>::default();
    let port = two_hosts(&has_vanished).await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hosts = |last: u8| std::fs::write(at("hosts"), format!("127.0.0.{last} cell.test\n")).unwrap();
    hosts(2);
    let text = format!(
        "fleet: test\ncells: [{{ id: cell-a, url: 'http://cell.test:{port}' }}]\nplacement: {{ shard_size: 1 }}\n"
    );
    std::fs::write(at("fleet.yaml"), text).unwrap();
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED a_router_follows_the_systems_resolver: this user may have no mount namespace");
        return;
    }
    let [data, admin, probes]: [SocketAddr; 3] = std::array::from_fn(|_| free_port());
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(at("hosts")).arg(EXE).arg("router");
    command.arg("--fleet").arg(at("fleet.yaml"));
    for (flag, address) in [("--listen", data), ("--admin", admin), ("--probe-listen", probes)] {
        command.args([flag, &address.to_string()]);
    }
    let _router = Process::start_as(folder.path(), "router", command);
    eventually("a router", async || {
        let stands = TcpStream::connect(probes).await.is_ok();
        (stands && probe(probes, "/readyz").await == 200).then_some(())
    })
    .await;
    assert_eq!(raw::ask(data, get("/", "acme")).await.text(), "first");
    has_vanished.store(true, Ordering::SeqCst);
    hosts(3);
    // A request that meets the kept connection too early waits, and is given up.
    eventually("the name's new address", async || {
        let mut client = raw::Client::connect(data).await;
        client.send(get("/", "acme")).await;
        let answer = tokio::time::timeout(Duration::from_millis(500), client.answer()).await;
        answer.is_ok_and(|answer| answer.text() == "second").then_some(())
    })
    .await;
}
