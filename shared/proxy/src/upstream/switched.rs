//! A connection whose other side has changed the protocol: no exchange's any more, and never the pool's again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::address::Stream;
use super::pool::Pooled;

/// A connection behind its 101, counted among its pool's for as long as it stands.
#[derive(Debug)]
pub(crate) struct Switched {
    pooled: Box<Pooled>,
    idle: Duration,
}

impl Switched {
    pub(super) fn new(pooled: Box<Pooled>, idle: Duration) -> Self {
        Self { pooled, idle }
    }

    /// The longest silence.
    pub(crate) fn idle(&self) -> Duration {
        self.idle
    }

    /// What came behind the 101.
    pub(crate) fn take_early(&mut self) -> Bytes {
        std::mem::take(&mut self.pooled.connection.read).freeze()
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut Stream> {
        Pin::new(&mut self.get_mut().pooled.connection.stream)
    }
}

impl AsyncRead for Switched {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Switched {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
