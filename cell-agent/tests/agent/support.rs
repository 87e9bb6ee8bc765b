//! A cell to test: an agent, a backend whose answers the test releases, and waiting on what can be seen.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use cofferdam_agent::{Agent, Listeners, Running, Settings};
use cofferdam_fleet::Fleet;
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use futures_util::stream;
use reqwest::{Client, RequestBuilder};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The bound on every wait: reached only by what will never come.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent, and a client before it.
pub(crate) struct TestCell {
    pub(crate) data: SocketAddr,
    pub(crate) probes: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) client: Client,
    pub(crate) running: Running,
}

/// A backend that answers by the last segment of the path.
pub(crate) struct TestBackend {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    serving: JoinHandle<()>,
}

struct Seen {
    /// How many requests have come in.
    entered: watch::Sender<usize>,
    /// A permit for each answer that the test lets go.
    go: Semaphore,
}

/// A fleet of two cells with these sections in its file.
pub(crate) fn fleet(sections: &str) -> Fleet {
    let text = format!(
        "fleet: test\ncells: [{{ id: cell-a, url: http://a:1 }}, {{ id: cell-b, url: http://b:1 }}]\n{sections}"
    );
    Fleet::parse(&text, Path::new(".")).unwrap().fleet
}

pub(crate) fn any_port() -> TcpListener {
    listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

impl TestCell {
    /// A cell in front of `backend`, with these `routes` and `cell` sections in its fleet file.
    pub(crate) fn start(backend: SocketAddr, sections: &str) -> Self {
        Self::start_with(backend, sections, |_| {})
    }

    pub(crate) fn start_with(backend: SocketAddr, sections: &str, set: impl FnOnce(&mut Settings)) -> Self {
        let fleet = fleet(sections);
        let backend = format!("http://{backend}").parse().unwrap();
        let mut settings = Settings::new(CellId::parse("cell-a").unwrap(), backend);
        settings.check_every = Duration::from_millis(10);
        // A machine that stands still makes no loss of a connection's age.
        settings.upstream.aged = PATIENCE;
        set(&mut settings);
        let (data, probes, admin) = (any_port(), any_port(), any_port());
        let [at_data, at_probes, at_admin] = [&data, &probes, &admin].map(|it| it.local_addr().unwrap());
        let listeners = Listeners { data: vec![data], probes: Some(probes), admin: Some(admin) };
        let running = Agent::start(&fleet, settings, listeners).unwrap();
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { data: at_data, probes: at_probes, admin: at_admin, client, running }
    }

    pub(crate) fn get(&self, tenant: &str, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}{path}", self.data)).header("cofferdam-tenant", tenant)
    }

    pub(crate) fn post(&self, tenant: &str, path: &str) -> RequestBuilder {
        self.client.post(format!("http://{}{path}", self.data)).header("cofferdam-tenant", tenant)
    }

    /// Sends a GET in the background.
    pub(crate) fn go(&self, tenant: &str, path: &str) -> JoinHandle<reqwest::Response> {
        let request = self.get(tenant, path);
        tokio::spawn(async move { request.send().await.unwrap() })
    }

    pub(crate) async fn probe(&self, path: &str) -> (u16, String) {
        probe(&self.client, self.probes, path).await
    }

    /// One class's numbers out of `/saturation`.
    pub(crate) async fn class(&self, class: &str) -> Value {
        let report = self.saturation().await;
        let classes = report["classes"].as_array().unwrap();
        classes.iter().find(|each| each["class"] == class).unwrap().clone()
    }

    pub(crate) async fn saturation(&self) -> Value {
        serde_json::from_str(&self.probe("/saturation").await.1).unwrap()
    }

    /// Waits until a class has this number under this key.
    pub(crate) async fn until(&self, class: &str, key: &str, number: u64) {
        eventually(async || self.class(class).await[key] == number).await;
    }

    /// Waits until the metrics have this line.
    pub(crate) async fn until_metric(&self, line: &str) {
        eventually(async || self.probe("/metrics").await.1.lines().any(|each| each == line)).await;
    }
}

pub(crate) async fn probe(client: &Client, address: SocketAddr, path: &str) -> (u16, String) {
    let answer = client.get(format!("http://{address}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Looks again and again, until it is so.
pub(crate) async fn eventually(mut so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !so().await {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it never came to be");
}

/// What an agent's refusal says: status and reason.
pub(crate) fn refusal(answer: &reqwest::Response) -> (u16, &str) {
    let field = |name| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
    let retry_after: u64 = field("retry-after").parse().expect("a refusal says when to come back");
    assert!(retry_after >= 1);
    assert_eq!(field("content-type"), "application/problem+json");
    (answer.status().as_u16(), field("cofferdam-refused"))
}

impl TestBackend {
    pub(crate) fn start() -> Self {
        Self::on(any_port())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen { entered: watch::Sender::new(0), go: Semaphore::new(0) });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let serving = tokio::spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        Self { address, seen, serving }
    }

    /// Waits until `n` requests have come in.
    pub(crate) async fn entered(&self, n: usize) {
        let mut entered = self.seen.entered.subscribe();
        let wait = entered.wait_for(|entered| *entered >= n);
        timeout(PATIENCE, wait).await.expect("requests never came in").unwrap();
    }

    pub(crate) fn n_entered(&self) -> usize {
        *self.seen.entered.borrow()
    }

    /// Lets `n` held answers go.
    pub(crate) fn release(&self, n: usize) {
        self.seen.go.add_permits(n);
    }

    /// Stops listening. Connections that stand are not touched: none may.
    pub(crate) async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

async fn answer(State(seen): State<Arc<Seen>>, request: Request) -> Response {
    seen.entered.send_modify(|n| *n += 1);
    match request.uri().path().rsplit('/').next().unwrap_or_default() {
        "hold" => {
            seen.go.acquire().await.unwrap().forget();
            "held".into_response()
        }
        "stream" => Body::from_stream(stream::unfold(0, move |n| {
            let seen = Arc::clone(&seen);
            async move {
                match n {
                    0 => {}
                    1 => seen.go.acquire().await.unwrap().forget(),
                    _ => return None,
                }
                Some((Ok::<_, std::convert::Infallible>(Bytes::from_static(b"chunk")), n + 1))
            }
        }))
        .into_response(),
        "fields" => axum::Json(fields(&request)).into_response(),
        "forged" => [
            ("cofferdam-refused", "cell"),
            ("cofferdam-cost", "30"),
            ("endpoint-load-metrics", "TEXT application_utilization=0"),
            ("connection", "x-private"),
            ("x-private", "1"),
            ("x-kept", "1"),
        ]
        .into_response(),
        "missing" => axum::http::StatusCode::NOT_FOUND.into_response(),
        _ => request.into_body().into_response(),
    }
}

/// The fields of a request, the values of one name joined.
fn fields(request: &Request) -> Value {
    let mut fields = Map::new();
    for (name, value) in request.headers() {
        let value = value.to_str().unwrap();
        match fields.get_mut(name.as_str()) {
            Some(Value::String(values)) => *values = format!("{values} | {value}"),
            _ => {
                fields.insert(name.to_string(), value.into());
            }
        }
    }
    Value::Object(fields)
}

/// What a scripted backend does once it has read a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Writes these bytes, and awaits the next request.
    Write(&'static str),
    /// Writes these bytes, and closes the connection.
    WriteAndClose(&'static str),
}

/// A backend that plays a list of steps for each connection, in the order in which they come in.
pub(crate) fn scripted(connections: Vec<Vec<Step>>) -> SocketAddr {
    let listener = any_port();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        for steps in connections {
            let (mut stream, _) = accept_real(&listener).await;
            for step in steps {
                read_head(&mut stream).await;
                let (Step::Write(bytes) | Step::WriteAndClose(bytes)) = step;
                stream.write_all(bytes.as_bytes()).await.unwrap();
                if matches!(step, Step::WriteAndClose(_)) {
                    break;
                }
            }
        }
    });
    address
}

/// The next connection that says something: the agent's check of the backend never does.
async fn accept_real(listener: &tokio::net::TcpListener) -> (tokio::net::TcpStream, SocketAddr) {
    loop {
        let (stream, peer) = listener.accept().await.unwrap();
        if stream.peek(&mut [0]).await.is_ok_and(|n| n > 0) {
            return (stream, peer);
        }
    }
}

/// Reads a request's head, and the one byte of body that these tests send at most.
async fn read_head(stream: &mut tokio::net::TcpStream) {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        if n == 0 {
            return;
        }
        head.extend_from_slice(&buffer[..n]);
    }
}
