//! A client's connection as the server sees it: a socket with clocks on what hyper leaves unbounded, and a close that
//! lets the last answer arrive.
//!
//! - A head that has begun and does not end within its time is answered 408; idle time is bounded apart from it.
//! - A client that takes nothing of its answer for too long loses its connection, and so what the answer holds.
//! - Closing with bytes unread makes the kernel send a reset, which can overtake the answer (RFC 9112 section 9.6): what
//!   still comes is read and thrown away for a while first.

mod heads;
mod turn;
mod writing;

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use self::turn::Last;
pub(crate) use self::turn::{Answering, Turn};
use self::writing::Writing;
use crate::upstream::HELD;

/// Pieces that have no more bytes together go out in one: a plain write costs the kernel less than a list does.
const SMALL_WRITE: usize = 1024;

/// How long a head that has begun may still take once the process drains.
const DRAIN_HEAD: Duration = Duration::from_secs(1);

/// How long a client that is silent when the process drains keeps its connection: its next request may be on its way,
/// and then it is answered. Which request comes first and which close, HTTP/1.1 cannot tell (RFC 9112 section 9.6).
pub(crate) const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// The times that a client's connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientTimes {
    /// The longest from the end of one request to the first byte of the next.
    pub(crate) idle: Duration,
    /// From the first byte of a head to its last.
    pub(crate) head: Duration,
    /// The longest that nothing of an answer is taken.
    pub(crate) stall: Duration,
}

/// A client's socket with its clocks.
pub(crate) struct ClientStream {
    /// Taken only by the drop.
    stream: Option<TcpStream>,
    times: ClientTimes,
    turn: Arc<Turn>,
    /// When the first byte of a head came, and how many requests had been read before it: it counts until the next.
    head_began: Option<(Instant, u32)>,
    /// A part of a head came, after so many requests: its time begins once more of it has to be waited for, and after an answer
    /// that is under way. Most heads come whole.
    has_come: Option<u32>,
    /// Since when there has been nothing to do, and how many requests had been read by then.
    idle_since: Option<(Instant, u32)>,
    /// One clock for all: the connection is idle, a head is read, or an answer is written.
    timer: Option<Pin<Box<Sleep>>>,
    /// What the clock was last set to.
    rings_at: Option<Instant>,
    stalled_since: Option<Instant>,
    /// The last read waits: whatever comes, also the client's end, is heard of.
    hears: bool,
    /// Since when bytes wait that nobody reads, or when the client's end was last looked for behind them.
    deaf_since: Option<Instant>,
    last: Last,
    /// The answers of HTTP/1.1 as they are written; nothing in HTTP/2.
    writing: Option<Writing>,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, times: ClientTimes, turn: Arc<Turn>) -> Self {
        Self {
            stream: Some(stream),
            times,
            turn,
            head_began: None,
            has_come: None,
            idle_since: None,
            timer: None,
            rings_at: None,
            stalled_since: None,
            hears: false,
            deaf_since: None,
            last: Last::Orderly,
            writing: None,
        }
    }

    /// The same for a connection that speaks HTTP/1.1: its request lines and its answers are looked at.
    pub(crate) fn of_http1(mut self) -> Self {
        self.writing = Some(Writing::default());
        self
    }

    /// The socket, for another protocol; `None` where a part of the last answer was not taken.
    pub(crate) fn into_socket(mut self) -> Option<TcpStream> {
        self.stream.take().filter(|_| self.stalled_since.is_none() && !self.has_unwritten())
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Ready once `deadline` has passed.
    fn poll_clock(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        self.rings_at = Some(deadline);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }

    /// Nothing came: an error once a head that has begun has had its time, or nobody has asked for anything for too long.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let n_requests = self.turn.n_requests.load(Ordering::Relaxed);
        self.turn.settles.store(false, Ordering::Relaxed);
        if self.has_come.take() == Some(n_requests) {
            self.head_begins(n_requests);
        }
        let Some((began, _)) = self.head_began.filter(|(_, before)| *before == n_requests) else {
            return self.poll_idle_clock(n_requests, cx);
        };
        let draining = self.turn.draining.load(Ordering::Relaxed);
        let most = if draining { self.times.head.min(DRAIN_HEAD) } else { self.times.head };
        ready!(self.poll_clock(began + most, cx));
        self.last = Last::HeadTimeout;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// A part of a head is there: the first one starts its time.
    fn head_begins(&mut self, n_requests: u32) {
        if self.head_began.is_none_or(|(_, before)| before != n_requests) {
            self.head_began = Some((Instant::now(), n_requests));
        }
    }

    /// Bytes came. Those of a body that nobody reads any more are no head's.
    fn take_note(&mut self, is_busy: bool) {
        let n_requests = self.turn.n_requests.load(Ordering::Relaxed);
        let has_body = self.turn.has_body.load(Ordering::Relaxed);
        if !has_body || !(is_busy || self.turn.settles.load(Ordering::Relaxed)) {
            self.has_come = Some(n_requests);
        }
    }

    /// The connection is idle. A clock that rings too early is left as it is and set anew when it has rung: to set it at
    /// each request would cost more than to read the time.
    fn poll_idle_clock(&mut self, n_requests: u32, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = Instant::now();
        let (since, _) = match self.idle_since {
            Some(known) if known.1 == n_requests => known,
            _ => *self.idle_since.insert((now, n_requests)),
        };
        let deadline = since + self.times.idle;
        let rings_in_time = self.rings_at.is_some_and(|at| now < at && at <= deadline);
        if now < deadline && (rings_in_time || self.poll_clock(deadline, cx).is_pending()) {
            return Poll::Pending;
        }
        if self.stream.as_ref().is_some_and(close_if_quiet) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        // The runtime tells of what has come, and then it is read.
        self.idle_since = None;
        Poll::Pending
    }

    /// Hears of the client's end while nobody reads what it sends, since its request is being answered. Behind bytes that
    /// wait, such as a body that is held back, the end is hidden: then it is looked for now and then. One whose end is behind
    /// more than the kernel takes is hidden even so.
    fn hear(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.deaf_since.is_none() {
            match self.stream()?.poll_peek(cx, &mut ReadBuf::new(&mut [0])) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(peeked) => _ = peeked?,
            }
        }
        let now = Instant::now();
        if now - *self.deaf_since.get_or_insert(now) < HELD {
            return Ok(());
        }
        self.deaf_since = Some(now);
        let Some(stream) = &self.stream else { return Ok(()) };
        let mut events = [PollFd::new(stream, PollFlags::RDHUP)];
        match poll(&mut events, Some(&Timespec::default())) {
            Ok(1..) => Err(io::ErrorKind::ConnectionReset.into()),
            Ok(0) | Err(_) => Ok(()),
        }
    }

    /// Whether bytes of ours wait.
    fn has_unwritten(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.ours.is_empty())
    }

    /// Ready once no bytes of ours wait.
    fn poll_ours(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(writing) = self.writing.as_mut().filter(|writing| !writing.ours.is_empty()) {
            let Some(stream) = &mut self.stream else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let written = Pin::new(stream).poll_write(cx, &writing.ours).map_ok(|n| writing.ours.advance(n));
            ready!(self.watch(written, cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Looks at bytes that the server is about to write, once what waited before them is written. The result is how many of
    /// them are done with; with none the socket is free.
    fn poll_look_at(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_ours(cx))?;
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(0)) };
        let n = writing.look_at(bytes, &self.turn);
        if let Some(status) = writing.refused {
            self.last = Last::Refused(status);
        }
        // What is done with may wait here: it goes out before all else.
        let written = self.poll_ours(cx)?;
        if n == 0 {
            ready!(written);
        }
        Poll::Ready(Ok(n))
    }

    /// Passes a write on; an error once nothing has been taken for too long.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled_since = None;
            return written;
        }
        let since = *self.stalled_since.get_or_insert_with(Instant::now);
        ready!(self.poll_clock(since + self.times.stall, cx));
        self.last = Last::Stalled;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            *self.turn.home.lock() = Some((stream, self.last));
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = this.stream()?.poll_read(cx, buf);
        (this.hears, this.deaf_since) = (read.is_pending(), None);
        let is_busy = this.turn.busy.load(Ordering::Relaxed);
        if buf.filled().len() > before {
            this.take_note(is_busy);
            if this.writing.is_some() {
                this.turn.heads.lock().see(&buf.filled()[before..]);
            }
        }
        if read.is_pending() && !is_busy {
            return this.poll_quiet(cx);
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let n @ 1.. = ready!(this.poll_look_at(bytes, cx))? {
            return Poll::Ready(Ok(n));
        }
        let written = this.stream()?.poll_write(cx, bytes);
        this.watch(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = pieces.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| piece);
        if let n @ 1.. = ready!(this.poll_look_at(first, cx))? {
            return Poll::Ready(Ok(n));
        }
        let mut small = [0; SMALL_WRITE];
        let written = match joined(pieces, &mut small) {
            Some(bytes) => this.stream()?.poll_write(cx, bytes),
            None => this.stream()?.poll_write_vectored(cx, pieces),
        };
        this.watch(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.hears && this.turn.busy.load(Ordering::Relaxed) {
            this.hear(cx)?;
        }
        if let Some(writing) = &mut this.writing {
            writing.flushed(&this.turn);
        }
        ready!(this.poll_ours(cx))?;
        this.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_ours(cx))?;
        if matches!(this.last, Last::Refused(_)) {
            // The answer to that is still to come.
            return Poll::Ready(Ok(()));
        }
        this.stream()?.poll_shutdown(cx)
    }
}

/// What all the pieces have, put together in `room`; `None` where that does not take them.
fn joined<'r>(pieces: &[io::IoSlice<'_>], room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut n = 0;
    for piece in pieces {
        room.get_mut(n..n + piece.len())?.copy_from_slice(piece);
        n += piece.len();
    }
    Some(&room[..n])
}

/// Ends the way out to a client from which nothing has come, and answers whether it did. The runtime asks the kernel now and
/// then, and a request may have come since. The look and the close are two calls, one behind the other: what comes in
/// between, HTTP/1.1 cannot tell from what comes behind the close (RFC 9112 section 9.6).
pub(crate) fn close_if_quiet(stream: &TcpStream) -> bool {
    let mut events = [PollFd::new(stream, PollFlags::IN)];
    let is_quiet = matches!(poll(&mut events, Some(&Timespec::default())), Ok(0));
    if is_quiet {
        // A socket that is not connected any more has nothing to end.
        drop(SockRef::from(stream).shutdown(Shutdown::Write));
    }
    is_quiet
}

#[cfg(test)]
mod tests;
