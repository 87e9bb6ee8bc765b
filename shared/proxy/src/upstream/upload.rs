//! The request's way out: its head, then its body as it comes, framed. It is polled beside the answer's way in.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use http::HeaderMap;
use http_body::Body;
use hyper::body::Incoming;

use super::connection::Connection;
use super::outbox::Outbox;
use crate::lines::put_field;
use crate::replay::{Attempt, BodyError};
use crate::trailers::may_trail;

/// How often one poll may fill and flush: a fast client must not keep an answer from being read.
const MAX_TURNS: usize = 8;

/// One request's body on its way out.
#[derive(Debug)]
pub(super) struct Upload<B = Attempt<Incoming>> {
    body: B,
    /// How much the head says is still to come; `None` where the body goes out in chunks.
    left: Option<u64>,
    /// The body has ended, and its end is in the outbox.
    ended: bool,
}

/// Why a request cannot be sent to its end.
#[derive(Debug)]
pub(super) enum UploadFault {
    /// The socket.
    Write(io::Error),
    /// The client's body.
    Body(BodyError),
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Upload<B> {
    pub(super) fn new(body: B) -> Self {
        let left = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        Self { body, left, ended: left == Some(0) }
    }

    /// The length to declare; `None` where the body goes out in chunks, since its length is not known.
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    /// Sends on; ready when all is written.
    pub(super) fn poll(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UploadFault>> {
        for _ in 0..MAX_TURNS {
            // Whatever is ready of the body joins what waits, so that a head and a small body are one write.
            let filled = self.poll_fill(&mut connection.out, cx).map_err(UploadFault::Body)?;
            ready!(connection.poll_flush(cx)).map_err(UploadFault::Write)?;
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            ready!(filled);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes of the body what is ready and has room; pending where the body has no more for now.
    fn poll_fill(&mut self, out: &mut Outbox, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        while !self.ended && out.has_room() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)?) {
                None => self.end(None, out)?,
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.put(data, out)?,
                    Err(frame) => self.end(frame.into_trailers().ok(), out)?,
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    fn put(&mut self, data: Bytes, out: &mut Outbox) -> Result<(), BodyError> {
        match &mut self.left {
            // An empty chunk would end the body.
            None if data.is_empty() => {}
            None => {
                put_size(data.len(), out);
                out.put(data, b"\r\n");
            }
            Some(left) => {
                // A byte too many would be read as the next request.
                *left = left.checked_sub(data.len() as u64).ok_or_else(mismatch)?;
                self.ended = *left == 0;
                out.put(data, b"");
            }
        }
        Ok(())
    }

    fn end(&mut self, trailers: Option<HeaderMap>, out: &mut Outbox) -> Result<(), BodyError> {
        if self.left.is_some_and(|left| left > 0) {
            return Err(mismatch());
        }
        self.ended = true;
        if self.left.is_none() {
            let out = out.joined();
            out.put_slice(b"0\r\n");
            for (name, value) in trailers.iter().flatten().filter(|(name, _)| may_trail(name)) {
                put_field(name, value, out);
            }
            out.put_slice(b"\r\n");
        }
        Ok(())
    }
}

impl Upload {
    /// How many bytes of the body have come, if its client is waited for; nothing where the body has ended, or waits for room
    /// on its way out.
    pub(super) fn awaited(&self) -> Option<u64> {
        if self.ended { None } else { self.body.awaited() }
    }
}

/// A chunk's first line.
fn put_size(size: usize, out: &mut Outbox) {
    // Writing into memory cannot fail.
    let _ = write!(out.joined().writer(), "{size:x}\r\n");
}

fn mismatch() -> BodyError {
    BodyError::Read("request body is not as long as its head says".into())
}

#[cfg(test)]
mod tests;
