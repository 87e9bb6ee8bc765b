//! Where an upstream is and how a connection to it is made: one function for TCP and for Unix sockets, whatever is spoken
//! on the connection then. It knows no HTTP.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

use super::fault::ConnectFault;
use super::names::{Endpoint, Names, Stamp};

/// The longest pause between two attempts at a Unix socket whose queue is full.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Where an upstream is.
#[derive(Debug, Clone)]
pub enum Address {
    /// A host and a port.
    Tcp(Arc<Endpoint>),
    /// The path of a Unix socket of this machine.
    Unix(Arc<Path>),
}

/// A connection to an upstream.
#[derive(Debug)]
pub enum Stream {
    /// TCP, with TCP_NODELAY.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

impl Address {
    /// `authority`, which is `host:port`, by the system's resolver.
    pub fn tcp(authority: &str) -> Self {
        Self::Tcp(Names::default().endpoint(authority))
    }

    /// Has connections there close that nobody uses. Those of a Unix socket close by themselves where nobody listens.
    pub fn close_idle(&self) {
        if let Self::Tcp(endpoint) = self {
            endpoint.close_idle();
        }
    }

    /// What a connection is made by now; nothing where it may be used for as long as it stands.
    pub(super) fn stamp(&self, stream: &Stream) -> Option<Stamp> {
        match (self, stream) {
            (Self::Tcp(endpoint), Stream::Tcp(stream)) => Some(endpoint.stamp(stream)),
            _ => None,
        }
    }

    /// Whether a connection that was made by this may be used again.
    pub(super) fn holds(&self, stamp: Option<Stamp>) -> bool {
        match (self, stamp) {
            (Self::Tcp(endpoint), Some(stamp)) => endpoint.holds(stamp),
            _ => true,
        }
    }

    /// A new connection, within `patience`.
    ///
    /// # Errors
    ///
    /// [`ConnectFault`]: nothing has reached the other side.
    pub async fn connect(&self, patience: Duration) -> Result<Stream, ConnectFault> {
        let connected = match self {
            Self::Tcp(endpoint) => timeout(patience, endpoint.connect()).await.map(|stream| {
                let stream = stream?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }),
            Self::Unix(path) => timeout(patience, unix(path)).await.map(|stream| stream.map(Stream::Unix)),
        };
        connected.map_err(|_| ConnectFault::Timeout(patience))?.map_err(ConnectFault::Io)
    }
}

/// A Unix socket whose queue is full says so at once, where TCP would ask again: so do we.
async fn unix(path: &Path) -> io::Result<UnixStream> {
    let mut pause = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            connected => return connected,
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(endpoint), Self::Tcp(other)) => Arc::ptr_eq(endpoint, other),
            (Self::Unix(path), Self::Unix(other)) => path == other,
            _ => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(endpoint) => f.write_str(endpoint.authority()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Stream {
    /// Lets the close be a reset, which waits behind nothing. A Unix socket's close does so by itself.
    pub fn abort(&self) {
        if let Self::Tcp(stream) = self {
            // What cannot be set is on its way out already.
            let _ = stream.set_zero_linger();
        }
    }

    /// Reads what is there already, without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where nothing is there; else what befell the connection.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buf),
            Self::Unix(stream) => stream.try_read(buf),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use socket2::{Domain, SockAddr, Socket, Type};

    use super::*;

    fn address(path: &Path) -> Address {
        Address::Unix(path.into())
    }

    #[tokio::test]
    async fn what_is_sent_to_an_upstream_does_not_wait_for_more() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::tcp(&listener.local_addr().unwrap().to_string());
        let Ok(Stream::Tcp(stream)) = address.connect(Duration::from_secs(20)).await else {
            panic!("no stream")
        };
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_file_that_is_missing_or_no_socket_or_that_nobody_listens_on_is_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        drop(UnixListener::bind(at("left")).unwrap());
        for (name, kind) in [
            ("missing", io::ErrorKind::NotFound),
            ("file", io::ErrorKind::ConnectionRefused),
            ("left", io::ErrorKind::ConnectionRefused),
        ] {
            let connected = address(&at(name)).connect(Duration::from_secs(5)).await;
            assert!(
                matches!(&connected, Err(ConnectFault::Io(error)) if error.kind() == kind),
                "{connected:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_full_queue_is_asked_again_until_it_has_room_and_no_longer_than_the_patience() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let address = address(&path);
        let first = address.connect(Duration::from_secs(5)).await.unwrap();
        let late = address.connect(Duration::from_millis(20)).await;
        assert!(matches!(late, Err(ConnectFault::Timeout(_))), "{late:?}");
        let waiting = address.connect(Duration::from_secs(20));
        let accepted = async {
            sleep(Duration::from_millis(5)).await;
            listener.accept().unwrap()
        };
        let (second, _accepted) = tokio::join!(waiting, accepted);
        drop((first, second.unwrap()));
    }
}
