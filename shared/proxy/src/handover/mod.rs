//! Listening sockets handed from a running process to the one that follows it, so that no connection in a queue is lost.
//!
//! Whoever closes a listening socket resets what waits in its queue, and with SO_REUSEPORT each socket has a queue of its
//! own. So sockets are never closed and opened again: the successor gets the same ones by a Unix socket at a path that
//! both know, accepts from them beside the running process, and says so; only then does the running process stop.
//!
//! ```text
//! running (offer)                               successor (claim)
//!                     <-- connects to PATH --
//!         -- hello, and each socket with its name -->
//!                                               starts to serve
//!                     <-- serving --
//!  leaves PATH        -- yours -->              takes over PATH
//!  accepts no more, drains
//! ```
//!
//! A successor that goes before it says `serving` changes nothing. Behind that word neither can know what the other knows, so
//! each stays as long as the other may leave: the running process until its `yours` is sent, and nowhere else; its successor
//! whatever happens, until it sees that the running process has broken off and still listens. So both may serve for a
//! while, and never neither.
//!
//! What both would change, such as a file that the successor reads, has an [`Ownership`]: the running process gives it away before
//! it hands its sockets on, and takes it back where nobody follows; its successor takes it once it has followed.
//!
//! Both sides talk only to their own user and to root. It knows neither HTTP nor what the sockets are for: their names are
//! the caller's.

mod claimed;
mod offer;
mod ownership;
mod wire;

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use tokio::net::UnixStream;

pub use self::claimed::{Claimed, claim};
pub use self::offer::Offer;
pub use self::ownership::{HandedOn, Owned, Ownership};

/// The longest that one side waits for the other's next word, where it can do without.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A listening socket and what it is for.
#[derive(Debug)]
pub struct Named {
    /// What the socket is for, in the caller's words: lowercase letters.
    pub name: String,
    /// Non-blocking.
    pub listener: TcpListener,
}

/// Why sockets were not handed on.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The other side belongs to somebody else.
    #[error("the other process runs as user {0}")]
    Stranger(u32),
    /// The other process is of another kind or version.
    #[error("the other process says {0:?}, not {1:?}")]
    Hello(String, String),
    /// What came is not what was to come.
    #[error("the other process says {0:?}")]
    Words(String),
    /// What came is not a listening TCP socket.
    #[error("socket {0} does not listen for tcp")]
    NotListening(String),
    /// The other process says nothing.
    #[error("the other process said nothing for {PATIENCE:?}")]
    Silent,
    /// The running process did not let go: it serves on.
    #[error("the running process serves on")]
    Kept,
    /// The connection between the two.
    #[error("could not talk to the other process")]
    Io(#[from] io::Error),
}

/// Whether the other side is this process's own user, or root.
fn check_peer(stream: &UnixStream) -> Result<(), HandoverError> {
    check_user(stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw())
}

fn check_user(peer: u32, own: u32) -> Result<(), HandoverError> {
    if peer == own || peer == 0 { Ok(()) } else { Err(HandoverError::Stranger(peer)) }
}

/// What the running process opens with.
fn hello(role: &str) -> String {
    format!("handover 1 {role}")
}

/// The other side's next word, within the patience.
async fn soon<T>(word: impl Future<Output = Result<T, HandoverError>>) -> Result<T, HandoverError> {
    tokio::time::timeout(PATIENCE, word).await.map_err(|_| HandoverError::Silent)?
}

#[cfg(test)]
mod tests;
