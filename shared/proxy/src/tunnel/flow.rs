//! One direction of a tunnel: bytes from a source to a sink, no faster than the sink takes them, and the source's end
//! behind them. It keeps nothing while nothing is under way, since most tunnels are silent most of the time.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at a time, and so the most that waits for the sink.
const ROOM: usize = 32 * 1024;

/// How often one poll may read. A source that always has more must leave the other direction its part of what the
/// runtime lets a task do in one turn, which is 128 reads and writes, and the worker's other tasks their turn.
const MAX_TURNS: usize = 8;

/// One direction.
#[derive(Debug)]
pub(super) struct Flow {
    /// What was read and is not written yet.
    waiting: Bytes,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The source has ended: so does the sink, once it has what waits.
    Ending,
    Ended,
}

/// The side that failed.
#[derive(Debug)]
pub(super) enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

impl Flow {
    /// A direction that begins with what was read before there was a tunnel.
    pub(super) fn new(early: Bytes) -> Self {
        // An empty slice would still hold the memory that it was cut from.
        let waiting = if early.is_empty() { Bytes::new() } else { early };
        Self { waiting, stage: Stage::Open }
    }

    /// Whether the source has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Whether bytes wait for the sink.
    pub(super) fn is_held_back(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Moves what can be moved in one turn, and adds it to `moved`; ready once the source's end has been passed on.
    pub(super) fn poll(
        &mut self,
        mut source: impl AsyncRead + Unpin,
        mut sink: impl AsyncWrite + Unpin,
        moved: &mut u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        let (mut source, mut sink) = (Pin::new(&mut source), Pin::new(&mut sink));
        let mut room = [MaybeUninit::uninit(); ROOM];
        for _ in 0..MAX_TURNS {
            ready!(self.poll_write(sink.as_mut(), moved, cx)).map_err(Broken::Sink)?;
            match self.stage {
                Stage::Open => {}
                Stage::Ending => {
                    ready!(sink.as_mut().poll_shutdown(cx)).map_err(Broken::Sink)?;
                    self.stage = Stage::Ended;
                    return Poll::Ready(Ok(()));
                }
                Stage::Ended => return Poll::Ready(Ok(())),
            }
            let mut read = ReadBuf::uninit(&mut room);
            ready!(source.as_mut().poll_read(cx, &mut read)).map_err(Broken::Source)?;
            let read = read.filled();
            if read.is_empty() {
                self.stage = Stage::Ending;
                continue;
            }
            let written = match sink.as_mut().poll_write(cx, read) {
                Poll::Ready(written) => written.map_err(Broken::Sink)?,
                Poll::Pending => 0,
            };
            *moved += written as u64;
            if written < read.len() {
                self.waiting = Bytes::copy_from_slice(&read[written..]);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        mut sink: Pin<&mut (impl AsyncWrite + ?Sized)>,
        moved: &mut u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let written = ready!(sink.as_mut().poll_write(cx, &self.waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *moved += written as u64;
            self.waiting.advance(written);
            if self.waiting.is_empty() {
                self.waiting = Bytes::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}
