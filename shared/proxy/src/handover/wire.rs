//! Lines and sockets on the connection between two processes: a socket travels with the line that names it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use socket2::{Domain, SockRef};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::{HandoverError, Named};

/// The last line of a list of sockets.
const END: &str = "end";

/// More than any process has, and few enough to read without a thought.
const MAX_BYTES: usize = 64 * 1024;

/// Sends one line, and a socket with it. A line is far shorter than a socket's buffer, so it goes whole or not at all.
pub(super) async fn send(
    stream: &UnixStream,
    line: &str,
    socket: Option<&TcpListener>,
) -> Result<(), HandoverError> {
    let line = format!("{line}\n");
    let sent = stream.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets = socket.map(AsFd::as_fd);
        if !sockets.as_slice().is_empty() {
            control.push(SendAncillaryMessage::ScmRights(sockets.as_slice()));
        }
        let bytes = [IoSlice::new(line.as_bytes())];
        Ok(sendmsg(stream, &bytes, &mut control, SendFlags::NOSIGNAL)?)
    });
    if sent.await? == line.len() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WriteZero).into()) }
}

/// Sends a hello and sockets, with the line that ends them.
pub(super) async fn send_all(
    stream: &UnixStream,
    hello: &str,
    sockets: &[Named],
) -> Result<(), HandoverError> {
    send(stream, hello, None).await?;
    for Named { name, listener } in sockets {
        send(stream, name, Some(listener)).await?;
    }
    send(stream, END, None).await
}

/// Receives what [`send_all`] sends.
pub(super) async fn receive_all(stream: &UnixStream, hello: &str) -> Result<Vec<Named>, HandoverError> {
    let mut received = Received::default();
    while !received.lines().any(|line| line == END) {
        received.more(stream).await?;
    }
    let mut lines: Vec<String> = received.lines().map(str::to_owned).collect();
    let names = lines.split_off(1);
    if lines[0] != hello {
        return Err(HandoverError::Hello(lines.remove(0), hello.to_owned()));
    }
    let names = &names[..names.len().saturating_sub(1)];
    if names.len() != received.sockets.len() {
        return Err(HandoverError::Words(format!(
            "{} names, {} sockets",
            names.len(),
            received.sockets.len()
        )));
    }
    names.iter().zip(received.sockets).map(|(name, socket)| listening(name, socket)).collect()
}

/// Awaits one line and nothing else.
pub(super) async fn expect(stream: &UnixStream, line: &str) -> Result<(), HandoverError> {
    let mut received = Received::default();
    while received.lines().next().is_none() {
        received.more(stream).await?;
    }
    match received.lines().next() {
        Some(said) if said == line => Ok(()),
        said => Err(HandoverError::Words(said.unwrap_or_default().to_owned())),
    }
}

/// What has come so far.
#[derive(Default)]
struct Received {
    text: String,
    sockets: Vec<OwnedFd>,
}

impl Received {
    /// The lines that are whole.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
    }

    /// Reads on; the end is an error.
    async fn more(&mut self, stream: &UnixStream) -> Result<(), HandoverError> {
        let mut bytes = [0; 256];
        let n = stream.async_io(Interest::READABLE, || self.read(stream, &mut bytes)).await?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let text = std::str::from_utf8(&bytes[..n]);
        self.text.push_str(text.map_err(|error| HandoverError::Words(error.to_string()))?);
        if self.text.len() > MAX_BYTES {
            return Err(HandoverError::Words(format!("more than {MAX_BYTES} bytes")));
        }
        Ok(())
    }

    fn read(&mut self, stream: &UnixStream, bytes: &mut [u8]) -> io::Result<usize> {
        // The kernel hands on at most one message's sockets at a time; ours have one.
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(bytes)];
        let message = recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = part {
                self.sockets.extend(sockets);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("sockets were lost on the way: too many files are open"));
        }
        Ok(message.bytes)
    }
}

/// A socket that came from outside, as what it has to be.
fn listening(name: &str, socket: OwnedFd) -> Result<Named, HandoverError> {
    let is_listening = {
        let socket = SockRef::from(&socket);
        let domain = socket.domain().is_ok_and(|domain| [Domain::IPV4, Domain::IPV6].contains(&domain));
        domain && socket.is_listener().unwrap_or(false)
    };
    if !is_listening {
        return Err(HandoverError::NotListening(name.to_owned()));
    }
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(Named { name: name.to_owned(), listener })
}
