//! Listeners beside the data path, for probes and for operators: served on the control thread, so that no question waits
//! behind a full data path. What is asked there is the caller's affair.

use std::future::{pending, ready};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long who has connected may take to ask, once nothing more is accepted.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// How long the last answers may take then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Listeners that are served until this is dropped.
#[derive(Debug, Default)]
pub struct Aside {
    tasks: JoinSet<()>,
    handed_over: CancellationToken,
}

impl Aside {
    /// Serves `routes` on `listener`, which is non-blocking, in a task of the current tokio runtime.
    pub fn serve(&mut self, listener: TcpListener, routes: Router) {
        self.serve_after(ready(()), listener, routes);
    }

    /// The same, once `first` is done: who asks before that waits in the queue.
    pub fn serve_after(
        &mut self,
        first: impl Future<Output = ()> + Send + 'static,
        listener: TcpListener,
        routes: Router,
    ) {
        let handed_over = self.handed_over.clone();
        self.tasks.spawn(async move {
            first.await;
            if let Err(error) = serve(listener, routes, handed_over).await {
                tracing::error!(%error, "a listener beside the data path could not be served");
            }
        });
    }

    /// Leaves the listening sockets to a process that shares them: accepts nothing more, and ends once the questions of
    /// who has connected are answered, or after a second.
    pub async fn hand_over(mut self) {
        self.handed_over.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(PATIENCE, ended).await;
    }
}

async fn serve(listener: TcpListener, routes: Router, handed_over: CancellationToken) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let accepting = Accepting { listener: Some(listener), handed_over: handed_over.clone() };
    let closed = async move {
        handed_over.cancelled().await;
        sleep(LAST_MOMENT).await;
    };
    axum::serve(accepting, routes).with_graceful_shutdown(closed).await
}

/// A listener that is let go of before its connections are.
struct Accepting {
    listener: Option<tokio::net::TcpListener>,
    handed_over: CancellationToken,
}

impl Listener for Accepting {
    type Io = tokio::net::TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        if let Some(listener) = &mut self.listener {
            tokio::select! {
                accepted = Listener::accept(listener) => return accepted,
                () = self.handed_over.cancelled() => {}
            }
        }
        self.listener = None;
        pending().await
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        listener.local_addr()
    }
}
