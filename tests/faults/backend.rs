//! A backend that holds every request for a while and notes how many of each tenant are in flight, whenever that changes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::ANY;

/// The tenant whose requests in flight are watched.
pub(crate) const WATCHED: &str = "greedy";

pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    now: usize,
    changes: Vec<(Instant, usize)>,
}

/// One request of the watched tenant that is in flight.
struct Present(Arc<Mutex<Seen>>);

impl Backend {
    /// Holds every request for `hold`.
    pub(crate) async fn start(hold: Duration) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let (mut tasks, noted) = (JoinSet::new(), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&noted);
                connections.spawn(async move {
                    let serve = service_fn(move |request| serve(request, Arc::clone(&seen), hold));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), serve).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    /// Every change of what was in flight so far, in order.
    pub(crate) fn changes(&self) -> Vec<(Instant, usize)> {
        self.seen.lock().unwrap().changes.clone()
    }
}

async fn serve(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
    hold: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_watched = request.headers().get("x-tenant-id").is_some_and(|tenant| tenant == WATCHED);
    let _present = is_watched.then(|| Present::enter(seen));
    tokio::time::sleep(hold).await;
    Ok(Response::new(Full::from("served")))
}

impl Present {
    fn enter(seen: Arc<Mutex<Seen>>) -> Self {
        seen.lock().unwrap().change(1);
        Self(seen)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.lock().unwrap().change(-1);
    }
}

impl Seen {
    fn change(&mut self, by: isize) {
        self.now = self.now.checked_add_signed(by).unwrap();
        self.changes.push((Instant::now(), self.now));
    }
}
