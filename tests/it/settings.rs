//! What flags set, through processes of the command.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use crate::support::files::{PINS, alone, fleet};
use crate::support::message::read_head;
use crate::support::processes::{RealFleet, run};
use crate::support::raw::{self, post};
use crate::support::scripted::{Scripted, ok};
use crate::support::within;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/examples/fleet.yaml");

#[tokio::test]
async fn the_bound_on_bodies_is_each_processes_own_flag() {
    let backend = Scripted::named("backend").await;
    let (url, at_cell) = (format!("http://{}", backend.address), ["--max-body-bytes", "1000"]);
    let cells = [[&["agent", "--backend", &url], &at_cell[..]].concat(), [&["cell"], &at_cell[..]].concat()];
    let real = RealFleet::of(&cells, &["--max-body-bytes", "2000"], |cells| fleet(cells, PINS)).await;
    // Each tenant is at home at another kind of cell.
    for tenant in ["acme", "globex"] {
        for (size, status) in [(1000, 200), (1001, 413), (2000, 413), (2001, 413)] {
            let answer = raw::ask(real.data, post("/", tenant, &vec![b'x'; size])).await;
            assert_eq!(answer.status(), status, "{tenant}, {size} bytes: {answer:?}");
        }
    }
    let refused = crate::support::metrics::scrape(real.probes).await;
    let refused = refused.sum("cofferdam_router_refusals_total", &["reason=\"body_too_large\""]);
    assert_eq!(refused, 2.0, "bodies that the router refused itself");
    assert_eq!(backend.only().body.len(), 1000);
}

#[test]
fn a_bound_of_nothing_is_refused() {
    let agent = ["agent", "--fleet", "f", "--cell", "a"];
    for (arguments, flag, value) in [
        (&["router", "--fleet", "f"][..], "--max-body-bytes", "0"),
        (&agent[..], "--max-body-bytes", "0"),
        (&agent[..], "--backend-idle", "0s"),
    ] {
        let output = run(&[arguments, &[flag, value]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("invalid value '{value}' for '{flag}")), "{said}");
    }
}

#[test]
fn a_url_that_names_no_store_is_refused_and_its_password_not_shown() {
    for url in [
        "redis://user:hunter2@host:port",
        "redis://:hunter2",
        "http://user:hunter2@host",
        "user:hunter2@host",
        "redis://user:hunter2@host/?hunter2=1",
        "redis://user:hunter2@host/hunter2",
        "redis://user:hunter2@a,b",
    ] {
        let output = run(&["router", "--fleet", EXAMPLE, "--store", url]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && said.contains("--store names no store"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn an_agent_lets_go_of_an_unused_connection_before_its_backend_does_and_posts_lose_nothing() {
    const KEEP_ALIVE: Duration = Duration::from_secs(5);
    let (closed, mut closings) = mpsc::unbounded_channel();
    let backend = Scripted::raw(move |stream, _| {
        let closed = closed.clone();
        async move {
            let mut stream = BufReader::new(stream);
            loop {
                let begun = Instant::now();
                let Ok(head) = tokio::time::timeout(KEEP_ALIVE, read_head(&mut stream)).await else { return };
                let Some(_) = head.unwrap() else { break closed.send(begun.elapsed()).unwrap() };
                stream.read_exact(&mut [0; 4]).await.unwrap();
                stream.write_all(&ok("backend")).await.unwrap();
            }
        }
    })
    .await;
    let url = format!("http://{}", backend.address);
    let agent = vec!["agent", "--backend", &url, "--backend-idle", "400ms"];
    let real = RealFleet::of(&[agent], &[], |cells| alone(cells[0], "")).await;
    for n in 1..=3 {
        assert_eq!(raw::ask(real.data, post("/", "acme", b"body")).await.text(), "backend", "post {n}");
        let idle = within("the agent to let go", closings.recv()).await.unwrap();
        assert!(idle < KEEP_ALIVE, "{idle:?}");
    }
}
