//! A backend that holds each request for as long as its path says, and counts the most that were in flight at once.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::ANY;

pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    count: Arc<Mutex<Count>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Count {
    now: usize,
    most: usize,
}

/// One request that is in flight.
struct Present(Arc<Mutex<Count>>);

impl Backend {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::<Mutex<Count>>::default();
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&count));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let count = Arc::clone(&counted);
                connections.spawn(async move {
                    let serve = service_fn(move |request| serve(request, Arc::clone(&count)));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), serve).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, count, _tasks: tasks }
    }

    /// The most that were in flight at once since this was last asked.
    pub(crate) fn most(&self) -> usize {
        let mut count = self.count.lock().unwrap();
        let now = count.now;
        std::mem::replace(&mut count.most, now)
    }
}

/// A path is the time in milliseconds.
async fn serve(
    request: Request<Incoming>,
    count: Arc<Mutex<Count>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let _present = Present::enter(count);
    let hold = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    if hold > 0 {
        tokio::time::sleep(Duration::from_millis(hold)).await;
    }
    Ok(Response::new(Full::from("served")))
}

impl Present {
    fn enter(count: Arc<Mutex<Count>>) -> Self {
        {
            let mut count = count.lock().unwrap();
            count.now += 1;
            count.most = count.most.max(count.now);
        }
        Self(count)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.lock().unwrap().now -= 1;
    }
}
