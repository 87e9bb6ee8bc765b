//! `cofferdam drill`: a fault that is let loose in one class stays in its compartment, and ends.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use crate::support::files::{alone, cell_id};
use crate::support::metrics::scrape;
use crate::support::processes::{Process, free_port, ready, run};
use crate::support::raw::{Client, ask, get};
use crate::support::scripted::Scripted;

const CELL: &str = "routes: [{ match: { path: /reports }, class: reports, timeout: 20s },\n\
                    { match: { path: /pay }, dependency: bank }]\n\
                    cell: { max_in_flight: 12, tenant_share: 1, dependencies: { bank: { max_in_flight: 3 } },\n\
                    classes: { reports: { floor: 2, ceiling: 2 }, default: { floor: 10 } } }";

/// An agent in front of a backend that answers everything at once.
struct Drilled {
    data: SocketAddr,
    probes: SocketAddr,
    admin: String,
    agent: Process,
    _backend: Scripted,
    _folder: tempfile::TempDir,
}

impl Drilled {
    async fn start(flags: &[&str]) -> Self {
        let (backend, folder) = (Scripted::named("served").await, tempfile::tempdir().unwrap());
        let [data, probes, admin] = [(); 3].map(|()| free_port());
        let file = folder.path().join("fleet.yaml");
        std::fs::write(&file, alone(data, CELL)).unwrap();
        let mut agent = Self::agent(&file, [data, probes, admin], backend.address, flags);
        ready(&mut agent, probes).await.unwrap();
        Self { data, probes, admin: format!("http://{admin}"), agent, _backend: backend, _folder: folder }
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
}

fn request(path: &str) -> String {
    get(path, "acme").replace("x-tenant-id", "cofferdam-tenant")
}

#[tokio::test]
async fn a_hang_in_one_class_fills_its_compartment_and_is_felt_nowhere_else() {
    // P3, P26
    let cell = Drilled::start(&["--allow-drills"]).await;
    let began = cell.begin("hang --class reports --for 1m").await;
    assert!(began.starts_with("drill 1: hang for class reports, 60 s left, 0 struck"), "{began}");
    let mut hung = Vec::new();
    for n in 1..=2 {
        let mut client = Client::connect(cell.data).await;
        client.send(request("/reports")).await;
        hung.push(client);
        let in_use =
            async || scrape(cell.probes).await.sum("cofferdam_agent_places_in_use", &["class=\"reports\""]);
        crate::support::eventually("a place to be held", async || {
            (in_use().await == f64::from(n)).then_some(())
        })
        .await;
    }
    assert_eq!(cell.status("/reports").await, 503, "the third finds no place");
    for _ in 0..20 {
        assert_eq!(cell.status("/").await, 200);
    }
    assert!(cell.begin("show").await.contains("2 struck"));
    assert_eq!(scrape(cell.probes).await.sum("cofferdam_agent_drills", &[]), 1.0);
    assert_eq!(cell.begin("stop 1").await, "1 ended\n");
    assert_eq!(cell.begin("show").await, "no drill goes on\n");
    drop(hung);
    crate::support::eventually("the places to be back", async || {
        (cell.status("/reports").await == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn latency_in_one_dependency_is_felt_by_what_needs_it_alone() {
    // P26
    let cell = Drilled::start(&["--allow-drills"]).await;
    cell.begin("latency 700ms --dependency bank --for 1m").await;
    let began = std::time::Instant::now();
    let mut late = Client::connect(cell.data).await;
    late.send(request("/pay")).await;
    for _ in 0..20 {
        assert_eq!(cell.status("/").await, 200);
        assert_eq!(cell.status("/reports").await, 200);
    }
    let of_the_others = began.elapsed();
    assert_eq!(late.answer().await.status(), 200);
    assert!(began.elapsed() >= Duration::from_millis(700) && of_the_others < began.elapsed());
    assert!(cell.begin("show").await.contains("latency of 700ms for dependency bank"));
}

#[tokio::test]
async fn a_drill_strikes_one_tenant_with_an_error_and_ends_by_itself() {
    let cell = Drilled::start(&["--allow-drills"]).await;
    cell.begin("error 502 --tenant acme --for 1s").await;
    assert_eq!(cell.status("/").await, 502);
    let other = request("/").replace("acme", "globex");
    assert_eq!(ask(cell.data, other).await.status(), 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cell.status("/").await, 200);
    for (words, why) in [
        ("hang --class search --for 1m", "the fleet file has no class \"search\""),
        ("error 200 --tenant acme --for 1m", "200 is no error"),
        ("latency 1s --tenant acme --for 2h", "\"2h\" is outside"),
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
    assert!(!output.status.success() && said.contains("was it started with --allow-drills?"), "{said}");
    assert_eq!(cell.status("/").await, 200);
}
