//! The successor's side: asks for the sockets of the process that runs, and tells it to stop.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use super::{HandoverError, Named, check_peer, hello, soon, wire};

/// How often a process that listens may break off before it is believed to go on by itself.
const MAX_TRIES: u32 = 3;

/// The sockets of a running process that has not stopped yet. Dropping this changes nothing for it.
#[derive(Debug)]
pub struct Claimed {
    /// Every listening socket of the running process.
    pub sockets: Vec<Named>,
    stream: UnixStream,
    path: PathBuf,
    hello: String,
}

/// Asks the process of this `role` that listens at `path` for its sockets; `None` where nobody listens there.
///
/// # Errors
///
/// [`HandoverError`], where somebody listens and hands nothing on: it serves on.
pub async fn claim(path: &Path, role: &str) -> Result<Option<Claimed>, HandoverError> {
    let (hello, mut n_tries) = (hello(role), 0);
    loop {
        let Some(stream) = connect(path).await? else { return Ok(None) };
        check_peer(&stream)?;
        match soon(wire::receive_all(&stream, &hello)).await {
            Ok(sockets) => return Ok(Some(Claimed { sockets, stream, path: path.to_owned(), hello })),
            // It may be leaving just now, and then nobody listens any more.
            Err(HandoverError::Io(_)) if n_tries < MAX_TRIES => n_tries += 1,
            Err(error) => return Err(error),
        }
    }
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
    /// died instead has let go too, and one that was tired of waiting is asked again, now that there is nothing more to wait
    /// for.
    ///
    /// However long it says nothing, it is waited for: it may have heard already, and leave. Whoever calls this serves
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`HandoverError`], where the running process serves on for certain: then its successor has to leave.
    pub async fn serving(mut self) -> Result<(), HandoverError> {
        for _ in 0..MAX_TRIES {
            match self.told().await {
                Err(HandoverError::Io(error)) => tracing::debug!(%error, "the process that runs breaks off"),
                told => return told,
            }
            // Where it is not known who is there, and whether, both serving is the better error.
            match connect(&self.path).await {
                Ok(Some(stream)) if check_peer(&stream).is_ok() => self.stream = stream,
                Ok(_) | Err(_) => return Ok(()),
            }
            match wire::receive_all(&self.stream, &self.hello).await {
                // They are those that are here already.
                Ok(_) | Err(HandoverError::Io(_)) => {}
                // Somebody else's place by now.
                Err(_) => return Ok(()),
            }
        }
        Err(HandoverError::Kept)
    }

    async fn told(&self) -> Result<(), HandoverError> {
        wire::send(&self.stream, "serving", None).await?;
        wire::expect(&self.stream, "yours").await
    }
}
