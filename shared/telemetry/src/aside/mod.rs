//! Listeners beside the data path, for probes and for operators: served on the control thread, so that no question waits
//! behind a full data path. What is asked there is the caller's affair.

mod connection;
mod door;
mod places;

use std::future::ready;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::connection::Of;
use self::door::Door;
use self::places::Places;

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
    /// Serves `routes` to whoever probes, on `listener`, which is non-blocking, in a task of the current tokio runtime.
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
        self.spawn(first, listener, routes, Of::Probes);
    }

    /// Serves `routes` to operators, who ask by this machine's own names and addresses or by one of `hosts`. No page in a browser
    /// gets through, unless this listener has served it.
    pub fn serve_operators(&mut self, listener: TcpListener, routes: Router, hosts: &[String]) {
        self.spawn(ready(()), listener, routes, Of::Operators(Door::new(hosts)));
    }

    fn spawn(
        &mut self,
        first: impl Future<Output = ()> + Send + 'static,
        listener: TcpListener,
        routes: Router,
        of: Of,
    ) {
        let handed_over = self.handed_over.clone();
        self.tasks.spawn(async move {
            first.await;
            if let Err(error) = serve(listener, routes, of, handed_over).await {
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

/// Serves until the sockets are handed over, and then until who has connected is answered.
async fn serve(
    listener: TcpListener,
    routes: Router,
    of: Of,
    handed_over: CancellationToken,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Places::new(of.most_connections());
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = handed_over.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue.
                tracing::debug!(%error, "a listener beside the data path could not accept");
                sleep(LAST_MOMENT).await;
                continue;
            }
        };
        // Closed at once: who holds the others has a few seconds.
        let Some(place) = places.take(peer.ip().to_canonical()) else { continue };
        let (routes, of, closing) = (routes.clone(), of.clone(), closing.clone());
        connections.spawn(async move {
            connection::serve(stream, routes, of, closing).await;
            drop(place);
        });
    }
    drop(listener);
    sleep(LAST_MOMENT).await;
    closing.cancel();
    while connections.join_next().await.is_some() {}
    Ok(())
}
