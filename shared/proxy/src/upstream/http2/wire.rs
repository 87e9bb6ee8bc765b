//! A connection's socket, and how much went through it: whether anything of a request can have left, and whether the
//! other side has been silent, is told by these numbers alone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::upstream::address::Stream;

/// Bytes so far, each way.
#[derive(Debug, Default)]
pub(super) struct Tally {
    read: AtomicU64,
    written: AtomicU64,
}

/// A socket that counts.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    tally: Arc<Tally>,
}

impl Tally {
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Wire {
    pub(super) fn new(stream: Stream, tally: Arc<Tally>) -> Self {
        Self { stream, tally }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(n)) = written {
            self.tally.written.fetch_add(n as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.tally.read.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
