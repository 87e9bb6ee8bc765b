//! A backend behind a Unix socket: what is asked of it, and what becomes of one that is gone.

use std::path::Path;

use axum::Router;
use axum::extract::Request;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::support::{TestCell, any_port, eventually, refusal};

/// An agent whose backend is the Unix socket at `path`.
fn cell(path: &Path) -> TestCell {
    let nowhere = any_port().local_addr().unwrap();
    TestCell::start_with(nowhere, "", |settings| {
        settings.backend = format!("unix:{}", path.display()).parse().unwrap();
    })
}

/// A backend at `path` that answers with the Host that it was asked for and the body that it was sent.
fn backend(path: &Path) -> JoinHandle<()> {
    let answer = async |request: Request| {
        let host = request.headers()["host"].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1 << 24).await.unwrap();
        [host.as_bytes(), b" ", &body].concat()
    };
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() })
}

#[tokio::test]
async fn a_backend_on_a_unix_socket_is_asked_for_the_clients_host_and_its_connections_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let serving = backend(&path);
    let cell = cell(&path);
    eventually(async || cell.probe("/readyz").await.0 == 200).await;
    // The kept connection outlives the listener: nobody could connect for the second request.
    for body in ["one".to_owned(), "x".repeat(1 << 20)] {
        let request = cell.post("acme", "/").header("host", "shop.example").body(body.clone());
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.text().await.unwrap() == format!("shop.example {body}"));
        std::fs::remove_file(&path).unwrap_or_default();
    }
    serving.abort();
}

#[tokio::test]
async fn a_unix_socket_that_is_missing_or_left_is_the_cell_and_readiness_says_so_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let cell = cell(&path);
    assert_eq!(refusal(&cell.get("acme", "/").send().await.unwrap()), (503, "cell"));
    let gone = format!("backend is gone: unix:{}: No such file", path.display());
    eventually(async || cell.probe("/readyz").await.1.starts_with(&gone)).await;
    for no_listener in [true, false] {
        if no_listener {
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        } else {
            std::fs::write(&path, "no socket").unwrap();
        }
        eventually(async || cell.probe("/readyz").await.1.contains("Connection refused")).await;
        assert_eq!(refusal(&cell.get("acme", "/").send().await.unwrap()), (503, "cell"));
        std::fs::remove_file(&path).unwrap();
    }
    let serving = backend(&path);
    eventually(async || cell.probe("/readyz").await.0 == 200).await;
    assert_eq!(cell.get("acme", "/").send().await.unwrap().status(), 200);
    cell.until_metric(r#"cofferdam_agent_requests_total{class="default",outcome="unreachable"} 3"#).await;
    serving.abort();
}
