//! `cofferdam drill`: a fault that is let loose in one class stays in its compartment, and ends.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::eventually;
use crate::support::files::{alone, cell_id};
use crate::support::metrics::scrape;
use crate::support::processes::{Process, free_port, on_free_ports, ready, run};
use crate::support::raw::{Client, ask, get};
use crate::support::scripted::{Play, Scripted, Seen, ok};

const CELL: &str = "routes: [{ match: { path: /recommend }, class: recommend, timeout: 5m },\n\
                    { match: { path: /search }, class: search, timeout: 5m },\n\
                    { match: { path: /pay }, class: orders, dependency: bank },\n\
                    { match: { path: / }, class: orders, timeout: 5m }]\n\
                    cell: { max_in_flight: 12, tenant_share: 1, dependencies: { bank: { max_in_flight: 3 } },\n\
                    classes: { orders: { floor: 5, ceiling: 5 }, search: { floor: 5, ceiling: 5 },\n\
                    recommend: { floor: 2, ceiling: 2 } } }";

/// An agent in front of a backend that answers at once, and `/hold` once it is let go.
struct Drilled {
    data: SocketAddr,
    probes: SocketAddr,
    admin: String,
    agent: Process,
    backend: Scripted,
    _folder: tempfile::TempDir,
}

impl Drilled {
    async fn start(flags: &[&str]) -> Self {
        on_free_ports(async || Self::try_start(flags).await).await
    }

    async fn try_start(flags: &[&str]) -> Option<Self> {
        let answers = |seen: &Seen| match seen.head.second_word().ends_with("/hold") {
            true => Play::Hold(ok("served")),
            false => Play::Answer(ok("served")),
        };
        let (backend, folder) = (Scripted::start(answers).await, tempfile::tempdir().unwrap());
        let [data, probes, admin] = [(); 3].map(|()| free_port());
        let file = folder.path().join("fleet.yaml");
        std::fs::write(&file, alone(data, CELL)).unwrap();
        let mut agent = Self::agent(&file, [data, probes, admin], backend.address, flags);
        ready(&mut agent, probes).await?;
        Some(Self { data, probes, admin: format!("http://{admin}"), agent, backend, _folder: folder })
    }

    fn agent(file: &Path, at: [SocketAddr; 3], backend: SocketAddr, flags: &[&str]) -> Process {
        let [listen, probes, admin] = at.map(|at| at.to_string());
        let (origin, id) = (format!("http://{backend}"), cell_id(0));
        let arguments = ["agent", "--fleet", file.to_str().unwrap(), "--cell", &id, "--backend", &origin];
        let listeners = ["--listen", &listen, "--probe-listen", &probes, "--admin", &admin];
        Process::start(file.parent().unwrap(), "agent", &[&arguments[..], &listeners, flags].concat())
    }

    async fn drill(&self, words: &str) -> Output {
        let words: Vec<_> = words.split(' ').chain(["--admin", &self.admin]).map(str::to_owned).collect();
        let drill =
            move || run(&[&["drill"], &words.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
        tokio::task::spawn_blocking(drill).await.unwrap()
    }

    async fn begin(&self, words: &str) -> String {
        let output = self.drill(words).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn status(&self, path: &str) -> u16 {
        ask(self.data, request(path)).await.status()
    }

    /// Sends so many requests, which shall hold all places of their class.
    async fn fill(&self, class: &str, n: u32, path: &str) -> Vec<Client> {
        let mut clients = Vec::new();
        for _ in 0..n {
            let mut client = Client::connect(self.data).await;
            client.send(request(path)).await;
            clients.push(client);
        }
        self.holds(class, n).await;
        clients
    }

    /// Waits until a class holds `n` places.
    async fn holds(&self, class: &str, n: u32) {
        let class = format!("class=\"{class}\"");
        eventually(&format!("{class} to hold {n} places"), async || {
            let in_use = scrape(self.probes).await.sum("cofferdam_agent_places_in_use", &[&class]);
            (in_use == f64::from(n)).then_some(())
        })
        .await;
    }
}

fn request(path: &str) -> String {
    get(path, "acme").replace("x-tenant-id", "cofferdam-tenant")
}

#[tokio::test]
async fn a_hang_in_one_class_fills_its_compartment_and_is_felt_nowhere_else() {
    // P3, P26: of twelve places as 5, 5 and 2, the third part hangs, and the other ten are there for whoever comes.
    let cell = Drilled::start(&["--allow-drills"]).await;
    let began = cell.begin("hang --class recommend --for 1m").await;
    assert!(began.starts_with("drill 1: hang for class recommend, 60 s left, 0 struck"), "{began}");
    let hung = cell.fill("recommend", 2, "/recommend").await;
    let third = ask(cell.data, request("/recommend")).await;
    assert_eq!((third.status(), third.field("cofferdam-refused")), (503, Some("class")));
    for _ in 0..3 {
        let orders = cell.fill("orders", 5, "/hold").await;
        let search = cell.fill("search", 5, "/search/hold").await;
        cell.holds("recommend", 2).await;
        cell.backend.release(10);
        for mut client in orders.into_iter().chain(search) {
            assert_eq!(client.answer().await.status(), 200);
        }
        cell.holds("orders", 0).await;
        cell.holds("search", 0).await;
    }
    let shown = cell.begin("show").await;
    assert!(shown.ends_with(", 2 struck\n"), "{shown}");
    assert_eq!(scrape(cell.probes).await.sum("cofferdam_agent_drills", &[]), 1.0);
    assert_eq!(cell.begin("stop 1").await, "1 ended\n");
    assert_eq!(cell.begin("show").await, "no drill goes on\n");
    drop(hung);
    let served = async || (cell.status("/recommend").await == 200).then_some(());
    eventually("the places to be back", served).await;
}

#[tokio::test]
async fn latency_in_one_dependency_is_felt_by_what_needs_it_alone() {
    // P26
    let cell = Drilled::start(&["--allow-drills"]).await;
    cell.begin("latency 700ms --dependency bank --for 1m").await;
    let began = Instant::now();
    let mut late = Client::connect(cell.data).await;
    late.send(request("/pay")).await;
    for _ in 0..20 {
        assert_eq!(cell.status("/").await, 200);
        assert_eq!(cell.status("/search").await, 200);
    }
    assert_eq!(late.answer().await.status(), 200);
    assert!(began.elapsed() >= Duration::from_millis(700));
    let shown = cell.begin("show").await;
    assert!(shown.contains("latency of 700ms for dependency bank"), "{shown}");
    assert!(shown.ends_with(", 1 struck\n"), "none of the others: {shown}");
}

#[tokio::test]
async fn a_drill_strikes_one_tenant_with_an_error_until_it_is_stopped() {
    let cell = Drilled::start(&["--allow-drills"]).await;
    cell.begin("error 502 --tenant acme --for 1m").await;
    assert_eq!(cell.status("/").await, 502);
    let other = request("/").replace("acme", "globex");
    assert_eq!(ask(cell.data, other).await.status(), 200);
    assert_eq!(cell.begin("stop").await, "1 ended\n");
    assert_eq!(cell.status("/").await, 200);
    for (words, why) in [
        ("hang --class reports --for 1m", "the fleet file has no class \"reports\""),
        ("error 200 --tenant acme --for 1m", "200 is no error"),
        ("latency 1s --tenant acme --for 2h", "\"2h\" is outside"),
        ("latency 300000000000years --tenant acme --for 1m", "\"300000000000years\" is outside"),
    ] {
        let output = cell.drill(words).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
    assert!(cell.agent.log().contains("a drill begins"));
}

#[tokio::test]
async fn without_leave_there_is_nowhere_to_ask_for_a_drill() {
    let cell = Drilled::start(&[]).await;
    let output = cell.drill("hang --tenant acme --for 1m").await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("with as its --admin beside --allow-drills"), "{said}");
    assert_eq!(cell.status("/").await, 200);
}
