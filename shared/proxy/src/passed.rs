//! Listening sockets that were opened for this process before it began, as systemd's socket units do: `LISTEN_FDS`,
//! `LISTEN_PID` and `LISTEN_FDNAMES` (sd_listen_fds(3)). What the names mean is the caller's affair.

use std::env;
use std::io;

use listenfd::ListenFd;
use socket2::SockRef;

use crate::handover::Named;

/// Why sockets that were passed cannot be served on.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// Not a TCP socket, or not open at all.
    #[error("LISTEN_FDS: socket {0} is not one for tcp")]
    Kind(usize, #[source] io::Error),
    /// A TCP socket that does not listen.
    #[error("LISTEN_FDS: socket {0} does not listen")]
    NotListening(usize),
    /// As many names as sockets are wanted, or none.
    #[error("LISTEN_FDNAMES has {0} names for {1} sockets")]
    Names(usize, usize),
}

/// The sockets that were passed, in their order, each with its name; the name is empty where none were given. Nothing is
/// passed on to processes that this one starts. Call it before there is a second thread, and once.
///
/// # Errors
///
/// [`PassedError`], where anything else than listening TCP sockets was passed.
pub fn from_environment() -> Result<Vec<Named>, PassedError> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut passed = ListenFd::from_env();
    let names: Vec<&str> = if names.is_empty() { Vec::new() } else { names.split(':').collect() };
    if !names.is_empty() && passed.len() > 0 && names.len() != passed.len() {
        return Err(PassedError::Names(names.len(), passed.len()));
    }
    let mut sockets = Vec::new();
    for n in 0..passed.len() {
        let listener = passed.take_tcp_listener(n).map_err(|error| PassedError::Kind(n, error))?;
        let Some(listener) = listener else { continue };
        if !SockRef::from(&listener).is_listener().unwrap_or(false) {
            return Err(PassedError::NotListening(n));
        }
        listener.set_nonblocking(true).map_err(|error| PassedError::Kind(n, error))?;
        sockets.push(Named { name: names.get(n).copied().unwrap_or_default().to_owned(), listener });
    }
    Ok(sockets)
}
