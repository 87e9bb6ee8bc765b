//! The running process's side: listens for a successor, gives it the sockets, and learns that it serves.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, future::pending};

use rustix::net::{SocketFlags, accept_with};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{HandoverError, Named, Ownership, check_peer, hello, soon, wire};

/// The sockets of this process on offer at a path, until a successor serves or nobody may follow any more.
#[derive(Debug)]
pub struct Offer {
    task: JoinHandle<bool>,
    close: Option<oneshot::Sender<()>>,
    /// How the task has ended, once that was seen.
    outcome: Option<bool>,
}

/// What the task needs: the sockets are the offer's own, so that they outlive the workers that accept from them.
struct Offering {
    /// Goes before the listener does: who finds that nobody listens may make its own socket there at once.
    place: Place,
    listener: UnixListener,
    hello: String,
    sockets: Arc<[Named]>,
    ownership: Ownership,
}

/// The path, which goes with the offer unless a successor has taken it over.
struct Place {
    path: PathBuf,
    is_ours: bool,
}

impl Offer {
    /// Offers `sockets`, which should be clones of what is accepted from, at `path`: mode 0600, and taken over from whoever
    /// had it. `ownership` is a successor's from when it gets them until it is seen not to follow. Call it within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Where the path has a file that is no socket, or none can be made there.
    pub fn open(path: &Path, role: &str, sockets: Vec<Named>, ownership: Ownership) -> io::Result<Self> {
        let listener = UnixListener::from_std(take_over(path)?)?;
        let place = Place { path: path.to_owned(), is_ours: true };
        let offering = Offering { place, listener, hello: hello(role), sockets: sockets.into(), ownership };
        let (close, closed) = oneshot::channel();
        Ok(Self { task: tokio::spawn(offering.run(closed)), close: Some(close), outcome: None })
    }

    /// Waits for a successor that serves. Dropping the future changes nothing.
    pub async fn taken(&mut self) {
        if !self.outcome().await {
            pending::<()>().await;
        }
    }

    /// Withdraws the offer, whether a successor has taken it or not: one that has begun to is waited for.
    pub async fn close(mut self) -> bool {
        drop(self.close.take());
        self.outcome().await
    }

    async fn outcome(&mut self) -> bool {
        if self.outcome.is_none() {
            self.outcome = Some((&mut self.task).await.unwrap_or(false));
        }
        self.outcome.unwrap_or(false)
    }
}

impl Offering {
    /// Whether a successor serves.
    async fn run(mut self, mut closed: oneshot::Receiver<()>) -> bool {
        loop {
            let successor = tokio::select! {
                accepted = self.listener.accept() => accepted.map(|(stream, _)| Some(stream)),
                _ = &mut closed => self.last(),
            };
            match successor {
                Ok(Some(stream)) => match self.hand_over(&stream).await {
                    Ok(()) => return true,
                    Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "nobody follows"),
                },
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a successor");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// A successor that has connected and was not heard of yet.
    fn last(&self) -> io::Result<Option<UnixStream>> {
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(stream) => UnixStream::from_std(stream.into()).map(Some),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn hand_over(&mut self, stream: &UnixStream) -> Result<(), HandoverError> {
        check_peer(stream)?;
        self.ownership.give().await;
        let followed = self.is_followed(stream).await;
        if followed.is_err() {
            self.ownership.take().await;
        }
        followed
    }

    async fn is_followed(&mut self, stream: &UnixStream) -> Result<(), HandoverError> {
        soon(wire::send_all(stream, &self.hello, &self.sockets)).await?;
        soon(wire::expect(stream, "serving")).await?;
        // One that serves waits for this, however late it comes: who is gone by now serves no more.
        soon(wire::send(stream, "yours", None)).await?;
        self.place.is_ours = false;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket at `path` in the place of one that is there already: nobody who connects finds none.
fn take_over(path: &Path) -> io::Result<StdUnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|file| !file.file_type().is_socket()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file there is no socket"));
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    let listener = StdUnixListener::bind(&new)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}
