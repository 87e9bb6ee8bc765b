//! h2load, nghttp2's load generator: many streams on few connections, and pipelined requests of HTTP/1.1.

use crate::front::Front;
use crate::program;

/// Runs h2load for a tenant: every request has to succeed with 2xx.
async fn load(front: &Front, flags: &[&str], path: &str) {
    let url = front.url(path);
    let arguments = [&["-n", "2000", "-c", "4", "-m", "20", "-H", "x-tenant-id: acme"], flags, &[&url]];
    let printed = program::printed("h2load", &arguments.concat()).await;
    for line in ["2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout", "2000 2xx, 0 3xx, 0 4xx, 0 5xx"]
    {
        assert!(printed.contains(line), "{printed}");
    }
    front.idle().await;
}

#[tokio::test]
async fn h2load_has_every_stream_answered() {
    load(&Front::sample().await, &[], "/").await;
}

#[tokio::test]
async fn h2load_has_every_pipelined_request_answered() {
    load(&Front::sample().await, &["--h1"], "/").await;
}

#[tokio::test]
async fn h2load_has_every_upload_answered() {
    let body = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/main.rs");
    load(&Front::sample().await, &["-d", body], "/echo").await;
}
