//! The listeners for operators, at router and agent: no page in a browser gets through, and nobody holds them up.

use std::net::SocketAddr;

use crate::support::files::{PINS, alone, cell_id, fleet};
use crate::support::processes::{Process, free_port, on_free_ports, ready, run};
use crate::support::raw::{self, Client};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

const KINDS_OF_FORMS: [&str; 3] =
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"];

async fn router() -> TestRouter {
    let cells = Scripted::cells(2).await;
    TestRouter::start(&fleet(&[cells[0].address, cells[1].address], PINS))
}

async fn get(to: SocketAddr, path: &str, fields: &str) -> raw::Answer {
    raw::ask(to, format!("GET {path} HTTP/1.1\r\n{fields}\r\n")).await
}

async fn post(to: SocketAddr, path: &str, fields: &str) -> raw::Answer {
    raw::ask(to, format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{fields}content-length: 0\r\n\r\n"))
        .await
}

#[tokio::test]
async fn a_host_that_is_not_the_listeners_own_is_421() {
    // A name of an attacker's may be made to resolve to this machine.
    let router = router().await;
    let at = router.admin;
    for host in [
        format!("127.0.0.1:{}", at.port()),
        "localhost:7001".to_owned(),
        "LOCALHOST".to_owned(),
        "[::1]:7001".to_owned(),
        "127.0.0.1".to_owned(),
    ] {
        assert_eq!(get(at, "/fleet", &format!("host: {host}\r\n")).await.status(), 200, "{host}");
    }
    for fields in [
        "host: evil.example\r\n",
        "host: localhost.evil.example\r\n",
        "host: 127.0.0.1.evil.example:7001\r\n",
        "host: 10.0.0.7:7001\r\n",
        "host: localhost\r\nhost: localhost\r\n",
        "host: user@localhost\r\n",
        "host: \r\n",
        "",
    ] {
        let answer = get(at, "/fleet", fields).await;
        assert!([400, 421].contains(&answer.status()), "{fields:?}: {answer:?}");
        assert!(!answer.text().contains("revision"), "{fields:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_neither_reads_nor_changes() {
    let router = router().await;
    let own = format!("host: {0}\r\norigin: http://{0}\r\nsec-fetch-site: same-origin\r\n", router.admin);
    assert_eq!(get(router.admin, "/fleet", &own).await.status(), 200);
    assert_eq!(
        get(router.admin, "/fleet", "host: localhost\r\nsec-fetch-site: none\r\n").await.status(),
        200
    );
    for fields in [
        "origin: http://evil.example\r\n",
        "origin: null\r\n",
        "origin: http://localhost:3000\r\n",
        "origin: https://localhost\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
    ] {
        let answer = get(router.admin, "/fleet", &format!("host: localhost\r\n{fields}")).await;
        assert_eq!(answer.status(), 403, "{fields:?}");
        let json = format!("{fields}content-type: application/json\r\n");
        assert_eq!(post(router.admin, "/placement/release/stop", &json).await.status(), 403, "{fields:?}");
    }
    let fields = &get(router.admin, "/fleet", "host: localhost\r\n").await.head.fields;
    assert!(fields.iter().all(|(name, _)| !name.starts_with("access-control-")), "{fields:?}");
}

#[tokio::test]
async fn a_change_is_told_in_json_which_no_form_can_send() {
    let router = router().await;
    for path in ["/placement/release/stop", "/placement/release/go"] {
        for kind in KINDS_OF_FORMS {
            let answer = post(router.admin, path, &format!("content-type: {kind}\r\n")).await;
            assert_eq!(answer.status(), 415, "{path} {kind}");
        }
        assert_eq!(post(router.admin, path, "").await.status(), 415, "{path}");
        // There is no release to stop.
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            let answer = post(router.admin, path, &format!("content-type: {kind}\r\n")).await;
            assert_eq!(answer.status(), 409, "{path} {kind}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn nobody_holds_the_listeners_up() {
    let router = router().await;
    // A head that is too long, and a body.
    let long = format!("GET /fleet HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(raw::ask(router.admin, long).await.status(), 431);
    let body = "x".repeat(70_000);
    let put = format!(
        "PUT /tenants/acme/pin HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(raw::ask(router.admin, put).await.status(), 413);
    for (at, path) in [(router.admin, "/fleet"), (router.probes, "/healthz")] {
        // Far more connections than are served, each with a head that never ends.
        let mut held = Vec::new();
        for _ in 0..400 {
            let mut client = Client::connect(at).await;
            let _ = client.try_send("GET / HTTP/1.1\r\nhost: localhost\r\n").await;
            held.push(client);
        }
        // Who comes from elsewhere is answered meanwhile, and all are given up.
        let elsewhere = Client::from([127, 0, 0, 2], at).await.ask(question(path)).await;
        assert_eq!(elsewhere.status(), 200);
        for client in &mut held {
            assert!(client.rest().await.len() < 512);
        }
        assert_eq!(get(at, path, "host: localhost\r\n").await.status(), 200);
    }
}

fn question(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let router = router().await;
    let mut client = Client::connect(router.admin).await;
    let head = "PUT /tenants/acme/pin HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    client.send(format!("{head}content-length: 10\r\n\r\n{{")).await;
    assert_eq!(client.answer().await.status(), 408);
}

#[tokio::test]
async fn the_probes_take_questions_alone() {
    let router = router().await;
    for method in ["POST", "PUT", "DELETE"] {
        let request = format!("{method} /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(raw::ask(router.probes, request).await.status(), 405);
    }
    // A scraper asks by whatever name it has.
    assert_eq!(get(router.probes, "/metrics", "host: router.internal.example\r\n").await.status(), 200);
}

/// A router and an agent as processes, with these flags.
struct Processes {
    router: SocketAddr,
    agent: SocketAddr,
    agent_probes: SocketAddr,
    _processes: [Process; 2],
    _folder: tempfile::TempDir,
}

impl Processes {
    async fn start(flags: &[&str]) -> Self {
        on_free_ports(async || Self::try_start(flags).await).await
    }

    async fn try_start(flags: &[&str]) -> Option<Self> {
        let backend = Scripted::named("served").await;
        let folder = tempfile::tempdir().unwrap();
        let ports: [SocketAddr; 6] = [(); 6].map(|()| free_port());
        let file = folder.path().join("fleet.yaml");
        std::fs::write(&file, alone(ports[0], "")).unwrap();
        let texts = ports.map(|port| port.to_string());
        let at = |first: usize| {
            ["--listen", &texts[first], "--probe-listen", &texts[first + 1], "--admin", &texts[first + 2]]
        };
        let (file, id, origin) = (file.to_str().unwrap(), cell_id(0), format!("http://{}", backend.address));
        let agent = ["agent", "--fleet", file, "--cell", &id, "--backend", &origin, "--allow-drills"];
        let mut agent = Process::start(folder.path(), "agent", &[&agent[..], &at(0), flags].concat());
        ready(&mut agent, ports[1]).await?;
        let router = ["router", "--fleet", file];
        let mut router = Process::start(folder.path(), "router", &[&router[..], &at(3), flags].concat());
        ready(&mut router, ports[4]).await?;
        let (admins, agent_probes) = ((ports[5], ports[2]), ports[1]);
        let _processes = [router, agent];
        Some(Self { router: admins.0, agent: admins.1, agent_probes, _processes, _folder: folder })
    }
}

#[tokio::test]
async fn a_flag_names_the_hosts_by_which_operators_ask() {
    let fleet = Processes::start(&["--admin-host", "router-1,ops.internal.example"]).await;
    for (at, path) in [(fleet.router, "/fleet"), (fleet.agent, "/drills")] {
        for host in ["router-1:7001", "OPS.internal.example", "127.0.0.1"] {
            assert_eq!(get(at, path, &format!("host: {host}\r\n")).await.status(), 200, "{host}");
        }
        assert_eq!(get(at, path, "host: router-2\r\n").await.status(), 421);
    }
    let fleet = Processes::start(&[]).await;
    for (at, path) in [(fleet.router, "/fleet"), (fleet.agent, "/drills")] {
        assert_eq!(get(at, path, "host: router-1\r\n").await.status(), 421);
    }
    // Drills are changes as well.
    let drill = post(fleet.agent, "/drills", "content-type: text/plain\r\n").await;
    assert_eq!(drill.status(), 415);
}

#[tokio::test]
async fn the_commands_get_through() {
    let fleet = Processes::start(&[]).await;
    let run = |words: String| tokio::task::spawn_blocking(move || run(&words.split(' ').collect::<Vec<_>>()));
    let router = format!("--admin http://{}", fleet.router);
    for (words, expected) in [
        (format!("rollout show {router}"), "no release"),
        (format!("rollout stop {router}"), "no release"),
        (format!("rollout go {router}"), "no release"),
        (format!("drill latency 10ms --class default --for 1m --admin http://{}", fleet.agent), "latency"),
        (format!("drill show --admin http://{}", fleet.agent), "latency"),
        (format!("drill stop --admin http://{}", fleet.agent), "ended"),
    ] {
        let output = run(words.clone()).await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(
            text.contains(expected) && !text.contains("JSON") && !text.contains("415"),
            "{words}: {text}"
        );
    }
}

#[tokio::test]
async fn names_of_tenants_are_told_to_operators_and_not_to_whoever_probes() {
    let fleet = Processes::start(&[]).await;
    let probed = get(fleet.agent_probes, "/saturation", "host: x\r\n").await;
    assert_eq!(probed.status(), 200);
    assert!(!probed.text().contains("top_tenants"), "{}", probed.text());
    let asked = get(fleet.agent, "/saturation", "host: localhost\r\n").await;
    assert_eq!(asked.status(), 200);
    assert!(asked.text().contains("\"top_tenants\":[]"), "{}", asked.text());
}
