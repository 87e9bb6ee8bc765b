//! Cells and backends of which every byte is scripted.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::files::cell_id;
use super::message::{Head, read_head};
use super::{ANY, raw};

/// A server on loopback that does what its script says, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    n_connections: Arc<AtomicUsize>,
    stage: Arc<Stage>,
    tasks: JoinSet<()>,
}

/// What a server and its owner know of each other.
#[derive(Debug)]
struct Stage {
    seen: Mutex<Vec<Seen>>,
    death: Notify,
    /// A permit for each answer that is let go.
    go: Semaphore,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// What a scripted server does with a request that it has read to its end.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    /// Writes these bytes and keeps the connection.
    Answer(Vec<u8>),
    /// Writes them after a while.
    Late(Duration, Vec<u8>),
    /// Writes them once they are [let go](Scripted::release), in the order in which they were asked for.
    Hold(Vec<u8>),
    /// Writes them and closes the connection.
    Last(Vec<u8>),
    /// Closes the connection without a byte.
    Close,
    /// The server dies: it stops listening, and closes every connection.
    Die,
    /// Never answers.
    Hang,
}

impl Scripted {
    /// Plays one step for each request.
    pub(crate) async fn start(script: impl Fn(&Seen) -> Play + Send + Sync + 'static) -> Self {
        let (script, stage) = (Arc::new(script), Arc::new(Stage::new()));
        let played = Arc::clone(&stage);
        let serve = move |stream, _| {
            let (script, stage) = (Arc::clone(&script), Arc::clone(&played));
            async move {
                let _ = play(stream, &*script, &stage).await;
            }
        };
        Self::on(stage, serve).await
    }

    /// Hands each connection, counted from 0, to `serve`.
    pub(crate) async fn raw<F>(serve: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::on(Arc::new(Stage::new()), serve).await
    }

    async fn on<F>(stage: Arc<Stage>, serve: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let n_connections = Arc::<AtomicUsize>::default();
        let (counter, dies) = (Arc::clone(&n_connections), Arc::clone(&stage));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = dies.death.notified() => break,
                };
                let Ok((stream, _)) = accepted else { break };
                stream.set_nodelay(true).unwrap();
                connections.spawn(serve(stream, counter.fetch_add(1, Ordering::SeqCst)));
            }
            // In this order: who sees its connection closed finds that nobody listens.
            drop(listener);
            connections.shutdown().await;
        });
        Self { address, n_connections, stage, tasks }
    }

    /// Answers every request with 200 and `name`.
    pub(crate) async fn named(name: &str) -> Self {
        let answer = ok(name);
        Self::start(move |_| Play::Answer(answer.clone())).await
    }

    /// So many, each with the name of its cell.
    pub(crate) async fn cells(n: usize) -> Vec<Self> {
        let mut cells = Vec::with_capacity(n);
        for index in 0..n {
            cells.push(Self::named(&cell_id(index)).await);
        }
        cells
    }

    /// How many connections were accepted.
    pub(crate) fn n_connections(&self) -> usize {
        self.n_connections.load(Ordering::SeqCst)
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.stage.seen.lock().unwrap().clone()
    }

    /// Lets `n` held answers go.
    pub(crate) fn release(&self, n: usize) {
        self.stage.go.add_permits(n);
    }

    /// Dies: it stops listening, and closes every connection.
    pub(crate) fn die(&self) {
        self.stage.death.notify_one();
    }

    /// The only request so far.
    #[track_caller]
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }

    /// Stops listening and cuts every connection.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Stage {
    fn new() -> Self {
        Self { seen: Mutex::default(), death: Notify::new(), go: Semaphore::new(0) }
    }
}

async fn play(
    stream: TcpStream,
    script: &(impl Fn(&Seen) -> Play + ?Sized),
    stage: &Stage,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream).await? {
        let body = raw::body_of(&mut stream, &head).await?;
        let request = Seen { head, body };
        stage.seen.lock().unwrap().push(request.clone());
        match script(&request) {
            Play::Answer(bytes) => stream.write_all(&bytes).await?,
            Play::Late(pause, bytes) => {
                tokio::time::sleep(pause).await;
                stream.write_all(&bytes).await?;
            }
            Play::Hold(bytes) => {
                // Never closed.
                stage.go.acquire().await.unwrap().forget();
                stream.write_all(&bytes).await?;
            }
            Play::Last(bytes) => return stream.write_all(&bytes).await,
            Play::Close => return Ok(()),
            Play::Die => {
                stage.death.notify_one();
                std::future::pending().await
            }
            Play::Hang => std::future::pending().await,
        }
    }
    Ok(())
}

/// A 200 with a text.
pub(crate) fn ok(text: &str) -> Vec<u8> {
    answer("200 OK", "", text)
}

/// An answer with a declared length; `fields` are lines, each with its end.
pub(crate) fn answer(status: &str, fields: &str, text: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

/// An agent's refusal.
pub(crate) fn refusal(status: &str, reason: &str) -> Vec<u8> {
    answer(status, &format!("cofferdam-refused: {reason}\r\nretry-after: 7\r\n"), "full")
}

/// An address that refuses connections for as long as it lives: bound, so that nobody else gets it, and not listening.
#[derive(Debug)]
pub(crate) struct Refusing {
    pub(crate) address: SocketAddr,
    _socket: TcpSocket,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(ANY).unwrap();
        Self { address: socket.local_addr().unwrap(), _socket: socket }
    }
}

/// An address that swallows connection attempts: its queue is full and nobody accepts.
#[derive(Debug)]
pub(crate) struct Swallowing {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _fillers: JoinSet<()>,
}

impl Swallowing {
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(ANY).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut fillers = JoinSet::new();
        // Until an attempt hangs, the queue has room.
        loop {
            let connecting =
                tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await;
            let Ok(Ok(stream)) = connecting else { break };
            fillers.spawn(async move {
                let _open = stream;
                std::future::pending::<()>().await;
            });
        }
        Self { address, _listener: listener, _fillers: fillers }
    }
}
