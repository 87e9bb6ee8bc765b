//! TLS: whom a link believes, and what it shows of itself.

use cofferdam_limits::redis::link::Link;

use crate::redis_tls::Certificates;
use crate::spend::{connected, eventually, open, spend};

/// Waits until a link says why it does not connect.
async fn refused(link: &Link, part: &str) {
    eventually("a reason", async || link.state().last_error.is_some()).await;
    let reason = link.state().last_error.unwrap();
    assert!(reason.contains(part), "{reason}");
    assert!(!link.state().is_connected());
}

#[tokio::test]
async fn a_server_is_believed_that_the_given_authority_vouches_for() {
    let certificates = Certificates::make();
    let (_server, port) = certificates.server(false);
    let ca = certificates.path("ca.crt");
    let link = connected(&format!("rediss://localhost:{port}?ca={}", ca.display())).await;
    spend(&link, "acme").await.unwrap();
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused() {
    let certificates = Certificates::make();
    let (_server, port) = certificates.server(false);
    let other = Certificates::make().path("ca.crt");
    let link = open(&format!("rediss://localhost:{port}?ca={}", other.display()));
    refused(&link, "ca.crt: ").await;
    assert_eq!(link.state().word(), "tls_failure");
    let stranger = Certificates::make();
    let ca = stranger.path("ca.crt");
    refused(&open(&format!("rediss://localhost:{port}?ca={}", ca.display())), "invalid peer certificate")
        .await;
    refused(&open(&format!("rediss://localhost:{port}")), "").await;
}

#[tokio::test]
async fn a_server_has_to_have_the_name_that_it_was_called_by_or_the_one_that_is_said() {
    let certificates = Certificates::make();
    let (_server, port) = certificates.server(false);
    let ca = certificates.path("ca.crt");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", ca.display());
    refused(&open(&url), "not valid for name").await;
    spend(&connected(&format!("{url}&server_name=localhost")).await, "acme").await.unwrap();
}

#[tokio::test]
async fn a_server_that_asks_for_it_is_shown_a_certificate() {
    let certificates = Certificates::make();
    let (_server, port) = certificates.server(true);
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|name| certificates.path(name));
    let url = format!("rediss://localhost:{port}?ca={}", ca.display());
    refused(&open(&url), "").await;
    let link = connected(&format!("{url}&cert={}&key={}", cert.display(), key.display())).await;
    spend(&link, "acme").await.unwrap();
}
