//! Listening sockets: bound by the caller, one for each worker, sharing a port by SO_REUSEPORT; or at a path.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use socket2::{Domain, Protocol, Socket, Type};

/// The queue of connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 1024;

/// One socket on `address`, ready for a tokio runtime (non-blocking). Port 0 picks a free port.
pub fn one(address: SocketAddr) -> io::Result<TcpListener> {
    open(address, false)
}

/// `n` sockets that share one port, so that the kernel spreads connections over `n` workers. Port 0 picks a free
/// port for all of them. A port that anybody else listens on is refused, even one that could be shared: the kernel
/// would hand every other connection to that process.
pub fn shared(address: SocketAddr, n: usize) -> io::Result<Vec<TcpListener>> {
    if n == 1 {
        return Ok(vec![one(address)?]);
    }
    // Bound alone, and never listened on, this fails where the port has an owner.
    drop(bind(address, false)?);
    let first = open(address, true)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..n {
        listeners.push(open(address, true)?);
    }
    Ok(listeners)
}

/// Sockets dealt out to `n` workers, each at least one, and no socket to nobody: what nobody accepts from would keep its
/// queue for ever. Where there are more workers than sockets, several accept from the same one; where there are fewer,
/// some have several.
pub fn deal(sockets: Vec<TcpListener>, n: usize) -> io::Result<Vec<Vec<TcpListener>>> {
    let mut hands: Vec<Vec<TcpListener>> = (0..n).map(|_| Vec::new()).collect();
    for (at, hand) in hands.iter_mut().enumerate().skip(sockets.len()) {
        let shared = sockets.get(at % sockets.len().max(1)).map(TcpListener::try_clone);
        hand.extend(shared.transpose()?);
    }
    for (at, socket) in sockets.into_iter().enumerate() {
        hands[at % n].push(socket);
    }
    Ok(hands)
}

/// A Unix socket at `path`, ready for a tokio runtime (non-blocking). A socket's file that nobody listens on any more, as
/// a process that was killed leaves it, makes way; a file of another kind does not.
pub fn unix(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether there is a socket's file that nobody listens on.
fn is_left(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn open(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = bind(address, reuse_port)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bind(address: SocketAddr, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_listeners_have_one_port_and_a_lone_one_keeps_it_to_itself() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let shared = shared(any, 2).unwrap();
        assert_eq!(shared[0].local_addr().unwrap(), shared[1].local_addr().unwrap());
        let lone = one(any).unwrap();
        assert!(one(lone.local_addr().unwrap()).is_err());
    }

    #[test]
    fn every_worker_has_a_socket_and_every_socket_a_worker() {
        for (n_sockets, n_workers, dealt) in [(1, 3, [1, 1, 1].as_slice()), (3, 2, &[2, 1]), (2, 2, &[1, 1])]
        {
            let sockets = shared(SocketAddr::from(([127, 0, 0, 1], 0)), n_sockets).unwrap();
            let hands = deal(sockets, n_workers).unwrap();
            assert_eq!(hands.iter().map(Vec::len).collect::<Vec<_>>(), dealt);
        }
    }

    #[test]
    fn a_socket_that_was_left_makes_way_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let owned = unix(&path).unwrap();
        assert_eq!(unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(owned);
        drop(unix(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "kept").unwrap();
        assert_eq!(unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_port_has_one_owner_however_many_sockets_share_it() {
        let owned = shared(SocketAddr::from(([127, 0, 0, 1], 0)), 2).unwrap();
        let port = owned[0].local_addr().unwrap();
        for n in [1, 2] {
            assert_eq!(shared(port, n).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
        drop(owned);
        assert!(shared(port, 2).is_ok());
    }
}
