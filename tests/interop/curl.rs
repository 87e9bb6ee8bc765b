//! curl, over each version that it speaks without TLS.
//!
//! What curl 7.88 does not manage with any server over HTTP/2 (a second request on a connection of prior knowledge, an
//! answer that comes before its upload has ended) is tried with the other clients of that version.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::front::Front;
use crate::program;

const HTTP1: &str = "--http1.1";
const HTTP2: &str = "--http2-prior-knowledge";

/// The most bytes of a request's body.
const MAX_BODY: usize = 10 << 20;

/// curl before a router, with a folder for what it writes.
struct Curl {
    front: Front,
    folder: TempDir,
}

/// One run of curl.
#[derive(Debug)]
struct Done {
    /// What `--write-out` knows of each transfer.
    transfers: Vec<Value>,
    body: Vec<u8>,
    head: String,
    trace: String,
}

impl Curl {
    async fn before(front: Front) -> Self {
        Self { front, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file to upload.
    fn file(&self, n_bytes: usize) -> (String, Vec<u8>) {
        let bytes: Vec<u8> = (0..n_bytes).map(|at| (at % 251) as u8).collect();
        let path = self.path("upload");
        fs::write(&path, &bytes).unwrap();
        (path.to_str().unwrap().to_owned(), bytes)
    }

    /// Asks for these paths in one run. The body is that of the last.
    async fn ask(&self, tenant: &str, flags: &[&str], paths: &[&str]) -> Done {
        let [body, head, trace] = ["body", "head", "trace"].map(|name| self.path(name));
        let _ = fs::remove_file(&body);
        let tenant = format!("x-tenant-id: {tenant}");
        let mut arguments = vec!["--silent", "--show-error", "--header", &tenant, "--write-out", "%{json}\n"];
        let files = [("--dump-header", &head), ("--trace-ascii", &trace)];
        arguments.extend(files.iter().flat_map(|(flag, path)| [*flag, path.to_str().unwrap()]));
        arguments.extend(flags);
        let urls: Vec<_> = paths.iter().map(|path| self.front.url(path)).collect();
        for url in &urls {
            arguments.extend(["--output", body.to_str().unwrap(), url]);
        }
        let printed = program::printed("curl", &arguments).await;
        Done {
            transfers: printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            body: fs::read(body).unwrap_or_default(),
            head: fs::read_to_string(head).unwrap(),
            trace: fs::read_to_string(trace).unwrap(),
        }
    }
}

impl Done {
    /// A number that `--write-out` knows of every transfer.
    #[track_caller]
    fn numbers(&self, name: &str) -> Vec<u64> {
        let number = |transfer: &Value| transfer[name].as_u64();
        self.transfers
            .iter()
            .map(|transfer| number(transfer).unwrap_or_else(|| panic!("{name}: {self:?}")))
            .collect()
    }

    /// The version and the status of the only transfer.
    #[track_caller]
    fn answer(&self) -> (&str, u64) {
        let [transfer] = self.transfers.as_slice() else { panic!("{self:?}") };
        (transfer["http_version"].as_str().unwrap(), self.numbers("response_code")[0])
    }

    /// Where a line of the trace begins that has these words, in their order.
    fn at(&self, words: &[&str]) -> Option<usize> {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        self.trace.lines().position(is_it)
    }
}

#[tokio::test]
async fn curl_is_served_whatever_version_it_speaks() {
    let curl = Curl::before(Front::sample().await).await;
    // `--http2` alone asks for an upgrade, which a server may pass over (RFC 9110, section 7.8).
    // The version of an answer is the server's own, whatever lower one the request has (RFC 9110, section 6.2).
    let versions = [(HTTP1, "1.1"), (HTTP2, "2"), ("--http1.0", "1.1"), ("--http2", "1.1")];
    for (flag, version) in versions {
        let done = curl.ask("acme", &[flag], &["/hello"]).await;
        assert_eq!(done.answer(), (version, 200), "{flag}: {done:?}");
        let told: Value = serde_json::from_slice(&done.body).unwrap();
        assert_eq!((&told["tenant"], &told["path"]), (&"acme".into(), &"/hello".into()), "{flag}");
    }
}

#[tokio::test]
async fn curl_keeps_its_connection() {
    let curl = Curl::before(Front::sample().await).await;
    let done = curl
        .ask("acme", &[HTTP1], &["/a", "/b", "/bytes?n=100000", "/stream?chunks=3", "/status?code=404"])
        .await;
    assert_eq!(done.numbers("num_connects"), [1, 0, 0, 0, 0]);
    assert_eq!(done.numbers("response_code"), [200, 200, 200, 200, 404]);
    let done = curl.ask("acme", &[HTTP1, "--head"], &["/a", "/b"]).await;
    assert_eq!(done.numbers("num_connects"), [1, 0]);
}

#[tokio::test]
async fn curl_sees_the_head_of_what_it_does_not_ask_for() {
    let curl = Curl::before(Front::sample().await).await;
    for version in [HTTP1, HTTP2] {
        let whole = curl.ask("acme", &[version], &["/bytes?n=1234"]).await;
        let done = curl.ask("acme", &[version, "--head"], &["/bytes?n=1234"]).await;
        assert!(done.head.contains("content-length: 1234\r\n"), "{done:?}");
        assert_eq!((whole.body.len(), done.numbers("size_download")[0]), (1234, 0));
    }
}

#[tokio::test]
async fn curl_uploads_with_a_length_and_without() {
    let curl = Curl::before(Front::sample().await).await;
    let (file, bytes) = curl.file(300_000);
    for version in [HTTP1, HTTP2] {
        for framing in ["Accept: */*", "Transfer-Encoding: chunked"] {
            let flags = [version, "--request", "POST", "--upload-file", &file, "--header", framing];
            let done = curl.ask("acme", &flags, &["/echo"]).await;
            assert_eq!(done.answer().1, 200, "{done:?}");
            assert!(done.body == bytes, "{version} {framing}: {} bytes came back", done.body.len());
        }
    }
}

#[tokio::test]
async fn curl_is_told_to_go_on_before_it_sends_a_body() {
    let curl = Curl::before(Front::sample().await).await;
    let (file, bytes) = curl.file(100_000);
    let expect = ["--header", "Expect: 100-continue", "--expect100-timeout", "50"];
    let flags = [&[HTTP1, "--request", "POST", "--upload-file", &file], &expect[..]].concat();
    let done = curl.ask("acme", &flags, &["/echo"]).await;
    let (told, sent) = (done.at(&["HTTP/1.1 100 Continue"]), done.at(&["=> Send data"]));
    assert!(told.is_some() && told < sent, "{done:?}");
    assert!(done.body == bytes);
}

#[tokio::test]
async fn curl_sends_no_body_that_would_be_refused() {
    let curl = Curl::before(Front::sample().await).await;
    let expect = ["--header", "Expect: 100-continue", "--expect100-timeout", "50"];
    assert_eq!(curl.ask("tight", &[HTTP1], &["/"]).await.answer().1, 200);
    for (tenant, n_bytes, status) in [("tight", MAX_BODY, 429), ("acme", MAX_BODY + 1, 413)] {
        let file = curl.file(n_bytes).0;
        let flags = [&[HTTP1, "--request", "POST", "--upload-file", &file], &expect[..]].concat();
        let done = curl.ask(tenant, &flags, &["/echo"]).await;
        assert_eq!((done.answer().1, done.numbers("size_upload")), (status, vec![0]), "{tenant}");
        assert_eq!(done.at(&["100 Continue"]), None, "{tenant}");
    }
}

#[tokio::test]
async fn curl_may_upload_as_much_as_is_allowed_and_no_more() {
    let curl = Curl::before(Front::python("threads.py").await).await;
    for framing in ["Accept: */*", "Transfer-Encoding: chunked"] {
        for (n_bytes, status) in [(MAX_BODY, 200), (MAX_BODY + 1, 413)] {
            let file = curl.file(n_bytes).0;
            let flags = [
                HTTP1,
                "--request",
                "POST",
                "--upload-file",
                &file,
                "--header",
                framing,
                "--header",
                "Expect:",
            ];
            let done = curl.ask("acme", &flags, &["/sum"]).await;
            assert_eq!(done.answer().1, status, "{n_bytes} bytes, {framing}");
        }
    }
    let whole = curl.file(MAX_BODY).0;
    let done = curl.ask("acme", &[HTTP2, "--request", "POST", "--upload-file", &whole], &["/sum"]).await;
    assert_eq!(done.answer(), ("2", 200));
    curl.front.idle().await;
}

#[tokio::test]
async fn curl_sees_chunks_and_trailers_as_they_are() {
    let curl = Curl::before(Front::python("threads.py").await).await;
    let takes = ["--header", "TE: trailers", "--header", "Connection: TE"];
    let raw = curl.ask("acme", &[&[HTTP1, "--raw"], &takes[..]].concat(), &["/chunked"]).await;
    let chunks = "4\r\none\n\r\n4\r\ntwo\n\r\n6\r\nthree\n\r\n0\r\nx-sum: 14\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&raw.body), chunks);
    for (version, takes) in [(HTTP1, &takes[..]), (HTTP2, &takes[..2])] {
        let done = curl.ask("acme", &[&[version], takes].concat(), &["/chunked"]).await;
        assert_eq!(String::from_utf8_lossy(&done.body), "one\ntwo\nthree\n", "{version}");
        assert!(done.head.trim_end().ends_with("x-sum: 14"), "{done:?}");
    }
    // Who does not take trailers is sent none.
    let raw = curl.ask("acme", &[HTTP1, "--raw"], &["/chunked"]).await;
    assert!(raw.body.ends_with(b"\r\n0\r\n\r\n"), "{raw:?}");
}

#[tokio::test]
async fn curl_asks_for_many_things_at_once() {
    let curl = Curl::before(Front::sample().await).await;
    for (version, name) in [(HTTP1, "1.1"), (HTTP2, "2")] {
        let flags = [version, "--parallel", "--parallel-immediate", "--parallel-max", "40"];
        let done = curl.ask("acme", &flags, &["/slow?ms=[1-40]"]).await;
        assert_eq!(done.numbers("response_code"), [200; 40]);
        assert!(done.transfers.iter().all(|transfer| transfer["http_version"] == name), "{version}");
    }
    curl.front.idle().await;
}

#[tokio::test]
async fn curl_has_its_answer_from_a_router_that_leaves() {
    for version in [HTTP1, HTTP2] {
        let curl = Curl::before(Front::sample().await).await;
        let leaves = async {
            curl.front.in_flight(1.0).await;
            curl.front.signal_router(Signal::TERM);
        };
        let asked = async { curl.ask("acme", &[version], &["/slow?ms=1500"]).await };
        let (done, ()) = tokio::join!(asked, leaves);
        assert_eq!(done.answer().1, 200, "{version}");
    }
}
