//! What a command says where what it asks is not what it takes it for.

use std::net::SocketAddr;
use std::process::Output;

use tokio::io::AsyncWriteExt;

use crate::support::agents::TestFleet;
use crate::support::processes::{Process, free_port, ready, run_at};
use crate::support::scripted::Refusing;

/// Commands that ask a router's admin listener.
const AT_ROUTER: [&str; 13] = [
    "explain acme",
    "blast acme",
    "limits show acme",
    "limits set acme --for 1m --burst 5",
    "limits clear acme",
    "pin acme --to cell-a,cell-b --for 1m --reason test",
    "unpin acme --reason test",
    "quarantine acme --for 1m --reason test",
    "release acme --reason test",
    "move acme --to cell-a,cell-b --reason test",
    "rollout show",
    "rollout stop",
    "rollout go",
];

/// Something that speaks first, and no HTTP.
async fn stranger() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            tokio::spawn(async move {
                let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[tokio::test]
async fn a_port_that_is_no_admin_listener_is_named_with_what_answered_and_what_to_try() {
    let fleet = TestFleet::probed("").await;
    let (nobody, stranger) = (Refusing::new(), stranger().await);
    let ports = [
        ("a router's probe port", fleet.router.probes, "probe listener"),
        ("a router's data port", fleet.router.data, "not a router's admin listener"),
        ("an agent's data port", fleet.cells[0].address, "not a router's admin listener"),
        ("an agent's probe port", fleet.cells[0].probes, "probe listener"),
        ("a port where nobody listens", nobody.address, "nothing listens"),
        ("a service without HTTP", stranger, "no HTTP"),
    ];
    for (what, port, answered) in ports {
        for words in AT_ROUTER.into_iter().chain(["drill show"]) {
            let output = run_at(port, words).await;
            let said = text(&output);
            let said = said.trim();
            assert_eq!(output.status.code(), Some(2), "{words} at {what}: {said}");
            let answered = match words {
                "drill show" => &answered.replace("a router's", "an agent's"),
                _ => answered,
            };
            assert!(said.contains(answered), "{words} at {what}: {said}");
            assert!(said.contains(&port.to_string()), "{words} at {what}: {said}");
            assert!(said.contains("--admin"), "{words} at {what}: {said}");
        }
    }
}

#[tokio::test]
async fn advise_says_what_it_asked_and_what_to_try_where_no_agent_answers() {
    let fleet = TestFleet::probed("").await;
    let (nobody, stranger) = (Refusing::new(), stranger().await);
    for port in [fleet.router.probes, fleet.router.data, fleet.router.admin, nobody.address, stranger] {
        let from = format!("http://{port}");
        let output =
            tokio::task::spawn_blocking(move || crate::support::processes::run(&["advise", "--from", &from]));
        let output = output.await.unwrap();
        let said = text(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(&port.to_string()) && said.contains("--from"), "{said}");
    }
}

#[tokio::test]
async fn an_admin_listener_beyond_loopback_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(
        &file,
        "fleet: f\ncells: [{ id: a, url: 'http://127.0.0.1:1' }]\nplacement: { shard_size: 1 }\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let warned = async |name: &str, ip: &str, agent: bool| {
        let port = |ip: &str| format!("{ip}:{}", free_port().port());
        let probes = free_port();
        let [data, admin, at_probes] = [port("127.0.0.1"), port(ip), probes.to_string()];
        let mut arguments = match agent {
            true => vec!["agent", "--cell", "a", "--allow-drills", "--backend", "http://127.0.0.1:1"],
            false => vec!["router"],
        };
        arguments.extend([
            "--fleet",
            file,
            "--listen",
            &data,
            "--admin",
            &admin,
            "--probe-listen",
            &at_probes,
        ]);
        let mut process = Process::start(folder.path(), name, &arguments);
        if agent {
            crate::support::eventually("an agent that answers", async || {
                (tokio::net::TcpStream::connect(probes).await.is_ok()).then_some(())
            })
            .await;
        } else {
            ready(&mut process, probes).await.unwrap();
        }
        let log = process.log();
        let warning = log.lines().find(|line| line.contains("WARN") && line.contains(&admin));
        warning.map(str::to_owned)
    };
    for agent in [false, true] {
        let name = |what: &str| format!("{what}-{agent}");
        let said = warned(&name("any"), "0.0.0.0", agent).await.expect("no warning for 0.0.0.0");
        assert!(said.contains("anybody who can reach it") && said.contains("loopback"), "{said}");
        assert_eq!(warned(&name("loopback"), "127.0.0.1", agent).await, None);
    }
}
