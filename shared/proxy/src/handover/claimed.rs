//! The successor's side: asks for the sockets of the process that runs, and tells it to stop.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use super::{HandoverError, Named, check_peer, hello, soon, wire};

/// The sockets of a running process that has not stopped yet. Dropping this changes nothing for it.
#[derive(Debug)]
pub struct Claimed {
    /// Every listening socket of the running process.
    pub sockets: Vec<Named>,
    stream: UnixStream,
    path: PathBuf,
}

/// Asks the process of this `role` that listens at `path` for its sockets; `None` where nobody listens there.
///
/// # Errors
///
/// [`HandoverError`], where somebody listens and hands nothing on: it serves on.
pub async fn claim(path: &Path, role: &str) -> Result<Option<Claimed>, HandoverError> {
    let Some(stream) = connect(path).await? else { return Ok(None) };
    check_peer(&stream)?;
    let sockets = soon(wire::receive_all(&stream, &hello(role))).await?;
    Ok(Some(Claimed { sockets, stream, path: path.to_owned() }))
}

async fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Claimed {
    /// Tells the running process that its successor serves, and waits until it has let go of the path. A process that
    /// died instead has let go too.
    ///
    /// # Errors
    ///
    /// [`HandoverError`], where the running process serves on: then its successor has to leave.
    pub async fn serving(self) -> Result<(), HandoverError> {
        let told = async {
            wire::send(&self.stream, "serving", None).await?;
            wire::expect(&self.stream, "yours").await
        };
        match soon(told).await {
            Ok(()) => Ok(()),
            // Gone, or tired of waiting: who still listens at the path has not let go.
            Err(HandoverError::Io(_)) if connect(&self.path).await?.is_none() => Ok(()),
            Err(HandoverError::Io(_)) => Err(HandoverError::Kept),
            Err(error) => Err(error),
        }
    }
}
