//! One connection: a socket, what was read and not used yet, and what waits to be written.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::io::poll_read_buf;

use super::address::Stream;
use super::clock::Clock;
use super::limits::HELD;
use super::outbox::Outbox;

/// What a first read has room for: a head and a small body. It goes through the stack, so that no connection keeps more
/// than what came.
const FIRST_READ: usize = 8 * 1024;

/// What a read has room for at most.
const LARGEST_READ: usize = 64 * 1024;

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) read: BytesMut,
    pub(super) out: Outbox,
    /// Bytes written for this exchange.
    pub(super) written: u64,
    /// Bounds the wait for each answer's head.
    pub(super) clock: Clock,
    room: usize,
    /// Runs while the other side takes nothing of what there is for it.
    held: Option<Pin<Box<Sleep>>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.out.is_empty() {
            // An end behind what the other side does not take would not be heard of until it is taken.
            self.stream.abort();
        }
    }
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            out: Outbox::default(),
            written: 0,
            clock: Clock::default(),
            room: FIRST_READ,
            held: None,
        }
    }

    /// Whether an idle connection can serve another exchange: it is open, and nothing came that nobody asked for. What
    /// the runtime has not heard yet it cannot tell.
    pub(super) fn is_fresh(&self) -> bool {
        let silent = self.stream.try_read(&mut [0; 1]);
        matches!(silent, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// While a body is held back nobody reads from the client, and nobody would hear of its end: looking for that takes a
    /// turn of the task now and then.
    pub(super) fn wake_if_held(&mut self, cx: &mut Context<'_>) {
        if self.out.is_empty() {
            return;
        }
        let timer = self.held.get_or_insert_with(|| Box::pin(sleep(HELD)));
        while timer.as_mut().poll(cx).is_ready() {
            timer.as_mut().reset(Instant::now() + HELD);
        }
    }

    /// Makes ready for another exchange, and keeps little memory until then.
    pub(super) fn rest(&mut self) {
        self.written = 0;
        self.out.rest();
        self.held = None;
        (self.room, self.read) = (FIRST_READ, BytesMut::new());
    }

    /// Reads what is there into `read`; 0 is the end. A read that fills its room lets the next one have more.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.room == FIRST_READ {
            return self.poll_read_first(cx);
        }
        self.read.reserve(self.room);
        let room = self.read.capacity() - self.read.len();
        let n = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.read))?;
        if n == room {
            self.room = (self.room * 2).min(LARGEST_READ);
        }
        Poll::Ready(Ok(n))
    }

    fn poll_read_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = [MaybeUninit::uninit(); FIRST_READ];
        let mut came = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut came))?;
        self.read.extend_from_slice(came.filled());
        if came.remaining() == 0 {
            self.room *= 2;
        }
        Poll::Ready(Ok(came.filled().len()))
    }

    /// Writes out all that waits.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(&mut self.stream);
        while !self.out.is_empty() {
            let n = ready!(match self.out.plain() {
                Some(bytes) => stream.as_mut().poll_write(cx, bytes),
                None => stream.as_mut().poll_write_vectored(cx, &self.out.slices()),
            })?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(n);
            self.written += n as u64;
        }
        Poll::Ready(Ok(()))
    }
}
