//! `cofferdam backend`: the sample backend. Each of its paths shows one thing that real backends do: answer, be slow,
//! send much, stream, echo, fail, die.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use cofferdam_model::headers;
use cofferdam_proxy::guard::{End, Guarded, OnEnd};
use cofferdam_proxy::listen;
use cofferdam_telemetry::aside::Aside;
use cofferdam_telemetry::probes::Probes;
use cofferdam_telemetry::prometheus_client::registry::Registry;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::process::{ProcessArgs, Told};

/// The longest that `/slow` and the pauses of `/stream` take.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The most bytes that `/bytes` answers.
const MAX_BYTES: usize = 64 << 20;

/// How many characters of a path the answer shows, so that it stays below 1 KiB.
const SHOWN_PATH: usize = 128;

/// How long what is in flight may take once the process was told to leave.
const DRAIN: Duration = Duration::from_secs(30);

/// The exit code of a backend that was poisoned: an internal software error, as in BSD's sysexits.
const POISONED: i32 = 70;

/// Run the sample backend
///
/// Any path answers a small JSON. Besides: /slow?ms=N, /bytes?n=N, /stream?chunks=N&every_ms=M, POST /echo,
/// /status?code=N, /poison, and /_stats.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where requests come in: an address and a port, or unix:/path
    #[arg(long, env = "COFFERDAM_LISTEN", default_value = "127.0.0.1:7200")]
    listen: Place,

    /// Where /healthz, /readyz and /metrics are; without this they are nowhere
    #[arg(long, env = "COFFERDAM_PROBE_LISTEN")]
    probe_listen: Option<SocketAddr>,

    /// The name that its answers show
    #[arg(long, default_value = "backend")]
    name: String,

    /// Let a request to /poison end the process
    #[arg(long)]
    allow_poison: bool,

    #[command(flatten)]
    process: ProcessArgs,
}

/// Where the sample backend listens.
#[derive(Debug, Clone)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let tcp = || text.parse().map(Self::Tcp).map_err(|error| error.to_string());
        text.strip_prefix("unix:").map_or_else(tcp, |path| Ok(Self::Unix(path.into())))
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.process.run(async |mut signals| {
        let (leave, left) = tokio::sync::oneshot::channel();
        let left = async {
            let _ = left.await;
        };
        let sample = Sample::new(&args.name, args.allow_poison);
        let mut aside = Aside::default();
        if let Some(address) = args.probe_listen {
            let listener = listen::one(address).with_context(|| format!("could not listen on {address}"))?;
            aside.serve(listener, Probes::new(Registry::default(), || Ok(())).routes());
        }
        let served = match &args.listen {
            Place::Tcp(address) => {
                let listener =
                    listen::one(*address).with_context(|| format!("could not listen on {address}"))?;
                tracing::info!(name = args.name, listen = %listener.local_addr()?, "sample backend starts");
                tokio::spawn(serve(listener, sample, left))
            }
            Place::Unix(path) => {
                let listener = listen::unix(path)
                    .with_context(|| format!("could not listen on unix:{}", path.display()))?;
                tracing::info!(name = args.name, listen = %path.display(), "sample backend starts");
                let listener = tokio::net::UnixListener::from_std(listener)?;
                let routes = routes(Arc::new(sample));
                tokio::spawn(axum::serve(listener, routes).with_graceful_shutdown(left).into_future())
            }
        };
        while signals.next().await == Told::Reload {
            tracing::warn!("nothing to reload: there is no file");
        }
        let _ = leave.send(());
        match timeout(DRAIN, served).await {
            Ok(ended) => ended??,
            Err(_) => tracing::warn!("what is left after {DRAIN:?} is cut"),
        }
        Ok(())
    })
}

/// The sample backend's state.
#[derive(Debug)]
pub(crate) struct Sample {
    name: String,
    allow_poison: bool,
    in_flight: AtomicU64,
    served: AtomicU64,
}

impl Sample {
    pub(crate) fn new(name: &str, allow_poison: bool) -> Self {
        Self { name: name.to_owned(), allow_poison, in_flight: AtomicU64::new(0), served: AtomicU64::new(0) }
    }
}

/// Serves the sample backend on `listener`, which is non-blocking, until `shutdown` is done and what is in flight has
/// ended.
pub(crate) async fn serve(
    listener: TcpListener,
    sample: Sample,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
    });
    axum::serve(listener, routes(Arc::new(sample))).with_graceful_shutdown(shutdown).await
}

fn routes(sample: Arc<Sample>) -> Router {
    Router::new()
        .route("/slow", any(slow))
        .route("/bytes", any(bytes))
        .route("/stream", any(streamed))
        .route("/echo", post(echo))
        .route("/status", any(status))
        .route("/poison", any(poison))
        .fallback(answer)
        .layer(middleware::from_fn_with_state(Arc::clone(&sample), counted))
        .route("/_stats", get(stats))
        .with_state(sample)
}

/// One request in flight, from its head to the end of its answer's body.
struct InFlight(Arc<Sample>);

impl InFlight {
    fn begin(sample: Arc<Sample>) -> Self {
        sample.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(sample)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OnEnd for InFlight {
    fn on_end(self, end: End) {
        if end == End::Complete {
            self.0.served.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn counted(State(sample): State<Arc<Sample>>, request: Request, next: Next) -> Response {
    let in_flight = InFlight::begin(sample);
    next.run(request).await.map(|body| Body::new(Guarded::new(body, in_flight)))
}

async fn stats(State(sample): State<Arc<Sample>>) -> Json<Value> {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Json(json!({ "in_flight": count(&sample.in_flight), "served": count(&sample.served) }))
}

async fn answer(
    State(sample): State<Arc<Sample>>,
    method: Method,
    uri: Uri,
    fields: HeaderMap,
) -> Json<Value> {
    let field = |name: HeaderName| fields.get(name).and_then(|value| value.to_str().ok());
    let path: String = uri.path().chars().take(SHOWN_PATH).collect();
    Json(json!({
        "backend": sample.name,
        "tenant": field(headers::TENANT),
        "class": field(headers::CLASS),
        "attempt": field(headers::ATTEMPT),
        "method": method.as_str(),
        "path": path,
    }))
}

#[derive(Debug, Deserialize)]
struct Slow {
    ms: u64,
}

async fn slow(
    Query(Slow { ms }): Query<Slow>,
    sample: State<Arc<Sample>>,
    method: Method,
    uri: Uri,
    fields: HeaderMap,
) -> Json<Value> {
    sleep(Duration::from_millis(ms).min(MAX_PAUSE)).await;
    answer(sample, method, uri, fields).await
}

#[derive(Debug, Deserialize)]
struct Size {
    n: usize,
}

async fn bytes(Query(Size { n }): Query<Size>) -> Result<Bytes, (StatusCode, String)> {
    if n > MAX_BYTES {
        return Err((StatusCode::BAD_REQUEST, format!("n is {n}: at most {MAX_BYTES} bytes\n")));
    }
    Ok(Bytes::from(vec![b'x'; n]))
}

#[derive(Debug, Deserialize)]
struct Chunks {
    chunks: u32,
    #[serde(default)]
    every_ms: u64,
}

async fn streamed(Query(Chunks { chunks, every_ms }): Query<Chunks>) -> Body {
    let pause = Duration::from_millis(every_ms).min(MAX_PAUSE);
    Body::from_stream(stream::unfold(0, move |n| async move {
        if n == chunks {
            return None;
        }
        if n > 0 {
            sleep(pause).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(format!("chunk {n}\n"))), n + 1))
    }))
}

async fn echo(body: Body) -> Body {
    body
}

#[derive(Debug, Deserialize)]
struct Code {
    code: u16,
}

async fn status(Query(Code { code }): Query<Code>) -> StatusCode {
    StatusCode::from_u16(code).ok().filter(|code| !code.is_informational()).unwrap_or(StatusCode::BAD_REQUEST)
}

async fn poison(State(sample): State<Arc<Sample>>) -> StatusCode {
    if sample.allow_poison {
        std::process::exit(POISONED);
    }
    StatusCode::FORBIDDEN
}
