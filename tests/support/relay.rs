//! A TCP relay that injects faults between any two: a router and a cell, or a router and its store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ANY;

/// What the relay does to connections; a change takes effect on those that stand as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Hands everything on.
    Clear,
    /// Closes connections as soon as they come, and those that stand at once.
    Cut,
    /// Hands answers on after a while.
    Late(Duration),
    /// Takes what is sent and hands nothing on, in either direction. A connection that lost some is cut when the weather changes:
    /// TCP leaves no gaps.
    Silent,
    /// Hands requests on, and cuts the connection at the first byte of an answer.
    AnswersLost,
    /// Keeps what is sent that way, as a network does whose packets are lost: it goes on when the weather clears.
    Held(Way),
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Requests,
    Answers,
    Both,
}

impl Weather {
    fn holds(self, way: Way) -> bool {
        matches!(self, Self::Held(held) if held == way || held == Way::Both)
    }
}

/// A relay in front of one address.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    weather: watch::Sender<Weather>,
    _tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Relay {
    pub(crate) async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = watch::Sender::new(Weather::Clear);
        let watch = weather.subscribe();
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        tasks.lock().unwrap().spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(relay(stream, target, watch.clone()));
            }
        });
        Self { address, weather, _tasks: tasks }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn relay(client: TcpStream, target: SocketAddr, mut weather: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut has_lost = false;
    loop {
        let now = *weather.borrow_and_update();
        if now == Weather::Cut || (has_lost && now != Weather::Silent) {
            return;
        }
        tokio::select! {
            changed = weather.changed() => if changed.is_err() { return },
            read = from_client.read(&mut up), if !now.holds(Way::Requests) => match read {
                Ok(n) if n > 0 && now == Weather::Silent => has_lost = true,
                Ok(n) if n > 0 => if to_server.write_all(&up[..n]).await.is_err() { return },
                _ => return,
            },
            read = from_server.read(&mut down), if !now.holds(Way::Answers) => match read {
                Ok(n) if n > 0 && matches!(now, Weather::Clear | Weather::Late(_) | Weather::Held(_)) => {
                    if let Weather::Late(pause) = now {
                        tokio::time::sleep(pause).await;
                    }
                    if to_client.write_all(&down[..n]).await.is_err() { return }
                }
                Ok(n) if n > 0 && now == Weather::Silent => has_lost = true,
                _ => return,
            },
        }
    }
}
