//! What a tenant can do to a backend that is well, one kind a variant.

use std::time::Duration;

use cofferdam_proxy::replay::BodyLimits;

use crate::grpc::fleet::{call, end, unary};
use crate::http2::client::{self, with};
use crate::support::agents::TestFleet;
use crate::support::raw::{self, chunk, get, with_fields};
use crate::support::scripted::{Play, Scripted, answer, ok};

/// The tenant that does it. `acme` has the same cells in the same order, `globex` the other way round.
pub(crate) const MALLORY: &str = "mallory";

/// Longer than any answer to what is well takes on a busy machine, and shorter than a breaker is open.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// The time of routes below `/db/brief`.
const BRIEF: Duration = Duration::from_millis(400);

/// The most bytes of a request's body.
const MAX_BODY: usize = 1000;

/// One request, by what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Well,
    NotFound,
    TooMany,
    ServerError,
    Grpc,
    StalledUpload,
    SlowUpload,
    BrokenUpload,
    LargeUpload,
    DeclaredLarge,
    Gone,
    Timeout,
    CallersDeadline,
    Closed,
    ClosedPost,
    Garbage,
    LargeHead,
    Interim,
    Truncated,
    RefusedUpgrade,
    Malformed,
}

impl Deed {
    pub(crate) const ALL: [Self; 21] = [
        Self::Well,
        Self::NotFound,
        Self::TooMany,
        Self::ServerError,
        Self::Grpc,
        Self::StalledUpload,
        Self::SlowUpload,
        Self::BrokenUpload,
        Self::LargeUpload,
        Self::DeclaredLarge,
        Self::Gone,
        Self::Timeout,
        Self::CallersDeadline,
        Self::Closed,
        Self::ClosedPost,
        Self::Garbage,
        Self::LargeHead,
        Self::Interim,
        Self::Truncated,
        Self::RefusedUpgrade,
        Self::Malformed,
    ];

    /// Does it; the status, that of gRPC for a call of it, and 0 where nobody waits for one.
    pub(crate) async fn ask(self, fleet: &TestFleet, tenant: &str) -> u16 {
        let data = fleet.router.data;
        let status = async |request: Vec<u8>| raw::ask(data, request).await.status();
        let path = |path: &str| get(path, tenant).into_bytes();
        match self {
            Self::Well => status(path("/db/ok")).await,
            Self::NotFound => status(path("/db/404")).await,
            Self::TooMany => status(path("/db/429")).await,
            Self::ServerError => status(path("/db/500")).await,
            Self::Timeout => status(path("/db/brief/hang")).await,
            Self::Closed => status(path("/db/close")).await,
            Self::ClosedPost => status(raw::post("/db/close", tenant, b"body")).await,
            Self::Garbage => status(path("/db/garbage")).await,
            Self::LargeHead => status(path("/db/head")).await,
            Self::Interim => status(path("/db/interim")).await,
            Self::Truncated => status(path("/db/truncated")).await,
            Self::Malformed => status(with_fields("TRACE", "/db/ok", tenant, "").into_bytes()).await,
            Self::RefusedUpgrade => {
                let fields = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
                status(with_fields("GET", "/db/ok", tenant, fields).into_bytes()).await
            }
            Self::Grpc => code(data, call("/db/Call", tenant)).await,
            Self::CallersDeadline => code(data, with(call("/db/hang", tenant), "grpc-timeout", "20m")).await,
            Self::DeclaredLarge => status(raw::post("/db/ok", tenant, &[b'x'; MAX_BODY + 1])).await,
            Self::LargeUpload => {
                let mut request = chunked("/db/ok", tenant);
                request.extend([chunk(&[b'x'; MAX_BODY]), chunk(b"more"), chunk(b"")].concat());
                status(request).await
            }
            Self::StalledUpload => {
                let mut client = raw::Client::connect(data).await;
                client.send(with_fields("POST", "/db/brief/ok", tenant, "content-length: 9\r\n")).await;
                client.send("abc").await;
                client.answer().await.status()
            }
            Self::SlowUpload => {
                let mut client = raw::Client::connect(data).await;
                client.send(chunked("/db/brief/ok", tenant)).await;
                // It goes on past the route's time, a byte at a time.
                let began = std::time::Instant::now();
                while began.elapsed() < 2 * BRIEF && client.try_send(chunk(b"x")).await.is_ok() {
                    tokio::time::sleep(BRIEF / 20).await;
                }
                client.answer().await.status()
            }
            Self::BrokenUpload => {
                let mut client = raw::Client::connect(data).await;
                client.send(with_fields("POST", "/db/ok", tenant, "content-length: 9\r\n")).await;
                client.send("abc").await;
                client.reset();
                0
            }
            Self::Gone => {
                let mut client = raw::Client::connect(data).await;
                client.send(get("/db/hang", tenant)).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                client.reset();
                0
            }
        }
    }
}

fn chunked(path: &str, tenant: &str) -> Vec<u8> {
    with_fields("POST", path, tenant, "transfer-encoding: chunked\r\n").into_bytes()
}

async fn code(data: std::net::SocketAddr, head: http::Request<()>) -> u16 {
    let answer = unary(&mut client::Client::connect(data).await, head, "a").await;
    end(&answer, "grpc-status").unwrap().parse().unwrap()
}

/// A router and two cells whose backends are well, behind breakers that three failures open for as long as a test runs, and with
/// a ceiling that follows the latency.
pub(crate) async fn guarded() -> TestFleet {
    let breaker = "{ failures: 3, open_for: 1h }";
    let text = format!(
        "placement: {{ pins: {{ acme: [cell-a, cell-b], {MALLORY}: [cell-a, cell-b], \
                                zoe: [cell-a, cell-b], globex: [cell-b, cell-a] }} }}\n\
         plans: {{ test: {{ sustained: 10k/s, burst: 10000, max_in_flight: 100 }} }}\n\
         tenant: {{ unknown: test }}\n\
         routes:\n\
         - {{ match: {{ path: /db/brief }}, dependency: db, timeout: {}ms }}\n\
         - {{ match: {{ path: /db }}, dependency: db }}\n\
         cell: {{ max_in_flight: 400, breaker: {breaker}, dependencies: {{ db: {{ breaker: {breaker} }} }}, \
                  classes: {{ default: {{ floor: 40, ceiling: 400, adaptive: {{}} }} }} }}\n",
        BRIEF.as_millis()
    );
    let body = BodyLimits { max_bytes: MAX_BODY as u64, idle: 2 * BRIEF };
    TestFleet::sized(&text, [backend("one").await, backend("two").await], body).await
}

/// A backend that is well: what goes wrong is what a request asked for.
async fn backend(name: &'static str) -> Scripted {
    Scripted::start(move |seen| {
        let path = seen.head.second_word();
        match path.rsplit('/').next() {
            Some("404") => Play::Answer(answer("404 Not Found", "", "")),
            Some("429") => Play::Answer(answer("429 Too Many Requests", "", "")),
            Some("500") => Play::Answer(answer("500 Internal Server Error", "", "")),
            Some("hang") => Play::Hang,
            Some("close") => Play::Close,
            Some("garbage") => Play::Last(b"garbage\r\n\r\n".to_vec()),
            Some("head") => Play::Last(answer("200 OK", &format!("x: {}\r\n", "y".repeat(200_000)), "")),
            Some("interim") => Play::Last(answer("101 Switching Protocols", "upgrade: other\r\n", "")),
            Some("truncated") => Play::Last(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec()),
            _ => Play::Answer(ok(name)),
        }
    })
    .await
}
