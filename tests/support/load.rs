//! A load that follows HTTP and forgives nothing: a request that was sent has to be answered with 200, whole. Where a server
//! has closed a connection between two requests, or has said that it will, the next request goes out on another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::message::{read_body, read_head};
use super::raw::{get, post};
use super::{eventually, within};

/// Between two requests of a lane.
const PAUSE: Duration = Duration::from_millis(2);

/// Lanes that send one request after another until they are stopped.
pub(crate) struct Load {
    lanes: JoinSet<Lane>,
    shared: Arc<Shared>,
}

/// What the lanes and their owner know of each other.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    served: AtomicUsize,
}

/// What one lane has seen.
#[derive(Debug, Default)]
struct Lane {
    served: usize,
    /// How many connections it has opened.
    connections: usize,
    failed: Vec<String>,
}

/// How a lane uses its connections.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// One for each request.
    Fresh,
    /// One for as long as the server keeps it.
    Kept,
    /// The same in HTTP/2.
    Http2,
}

impl Load {
    /// Two lanes of each kind towards `to`.
    pub(crate) fn start(to: SocketAddr) -> Self {
        let (mut lanes, shared) = (JoinSet::new(), Arc::<Shared>::default());
        for style in [Style::Fresh, Style::Kept, Style::Http2, Style::Fresh, Style::Kept, Style::Http2] {
            lanes.spawn(lane(style, to, Arc::clone(&shared)));
        }
        Self { lanes, shared }
    }

    /// Waits until a good number of requests more were served.
    pub(crate) async fn goes_on(&self) {
        let served = || self.shared.served.load(Ordering::SeqCst);
        let enough = served() + 60;
        eventually("more requests served", async || (served() >= enough).then_some(())).await;
    }

    /// Ends the load, of which no request may have failed.
    pub(crate) async fn end(self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let lanes = within("the load's end", self.lanes.join_all()).await;
        let failed: Vec<_> = lanes.iter().flat_map(|lane| &lane.failed).collect();
        assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
        assert!(lanes.iter().all(|lane| lane.served >= lane.connections.max(1)), "{lanes:?}");
    }
}

async fn lane(style: Style, to: SocketAddr, shared: Arc<Shared>) -> Lane {
    let mut lane = Lane::default();
    let (mut kept, mut http2) = (None, None);
    while !shared.stop.load(Ordering::SeqCst) && lane.failed.len() < 10 {
        let is_post = lane.served % 2 == 1;
        let answered = match style {
            Style::Fresh => ask(&mut None, to, is_post, &mut lane.connections).await,
            Style::Kept => ask(&mut kept, to, is_post, &mut lane.connections).await,
            Style::Http2 => ask_http2(&mut http2, to, is_post, &mut lane.connections).await,
        };
        // The machine has other things to do besides.
        tokio::time::sleep(PAUSE).await;
        match answered {
            Ok(()) => {
                lane.served += 1;
                shared.served.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                (kept, http2) = (None, None);
                lane.failed.push(format!("{style:?}, post {is_post}, after {}: {error:#}", lane.served));
            }
        }
    }
    lane
}

type Stream = BufReader<TcpStream>;

async fn connect(to: SocketAddr, connections: &mut usize) -> anyhow::Result<TcpStream> {
    *connections += 1;
    let stream = within("connect", TcpStream::connect(to)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One exchange on the connection that is kept, or on another.
async fn ask(
    kept: &mut Option<Stream>,
    to: SocketAddr,
    is_post: bool,
    connections: &mut usize,
) -> anyhow::Result<()> {
    let mut stream = match kept.take().filter(is_open) {
        Some(stream) => stream,
        None => BufReader::new(connect(to, connections).await?),
    };
    let request = if is_post { post("/", "acme", b"body") } else { get("/", "acme").into_bytes() };
    within("send", stream.write_all(&request)).await?;
    let Some(head) = within("a head", read_head(&mut stream)).await? else { anyhow::bail!("no answer") };
    within("a body", read_body(&mut stream, head.response_framing(false))).await?;
    anyhow::ensure!(head.second_word() == "200", "{head:?}");
    if head.field("connection") != Some("close") {
        *kept = Some(stream);
    }
    Ok(())
}

/// Whether the server has not closed the connection, as far as this side has heard.
fn is_open(stream: &Stream) -> bool {
    let mut byte = [0];
    let silent = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.get_ref().try_read(&mut byte).is_err_and(silent)
}

type Requests = h2::client::SendRequest<Bytes>;

async fn ask_http2(
    kept: &mut Option<Requests>,
    to: SocketAddr,
    is_post: bool,
    connections: &mut usize,
) -> anyhow::Result<()> {
    let ready = match kept.take() {
        // A server that goes away has no room for another stream.
        Some(requests) => within("room for a stream", requests.ready()).await.ok(),
        None => None,
    };
    let mut requests = match ready {
        Some(requests) => requests,
        None => {
            let stream = connect(to, connections).await?;
            let (requests, connection) = within("a handshake", h2::client::handshake(stream)).await?;
            tokio::spawn(connection);
            within("room for a stream", requests.ready()).await?
        }
    };
    let method = if is_post { http::Method::POST } else { http::Method::GET };
    let request = http::Request::builder().method(method).uri("http://test.example/");
    let request = request.header("x-tenant-id", "acme").body(())?;
    // Refused here, nothing was sent: the server's word that it goes away came in between.
    let Ok((answer, mut body)) = requests.send_request(request, !is_post) else { return Ok(()) };
    if is_post {
        body.send_data(Bytes::from_static(b"body"), true)?;
    }
    let (head, mut body) = within("a head", answer).await?.into_parts();
    while let Some(data) = within("a part", body.data()).await {
        body.flow_control().release_capacity(data?.len())?;
    }
    anyhow::ensure!(head.status == 200, "{head:?}");
    *kept = Some(requests);
    Ok(())
}
