//! One exchange on one connection, up to the head of its answer: the request goes out while the answer is awaited.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use http::response::Parts;
use http::{Method, StatusCode};

use super::connection::Connection;
use super::fault::{AnswerError, SendFault, closed};
use super::head::{self, BodyKind, Head};
use super::pool::Pooled;
use super::upload::{Upload, UploadFault};
use crate::replay::{BodyError, ReplayBody};
use crate::upgrade;

/// The most interim answers before a final one.
const MAX_INTERIM: u32 = 16;

/// A connection, and the request that it serves.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) pooled: Box<Pooled>,
    upload: Upload,
    way_out: WayOut,
    method: Method,
    /// Whether a 101 was asked for.
    upgrade: bool,
    /// Whether the connection may serve another exchange, as far as the answer's head says.
    keep_alive: bool,
    n_interim: u32,
    /// How many bytes of the head that is awaited have been looked at.
    n_seen: usize,
}

/// How the request's way out stands.
#[derive(Debug)]
enum WayOut {
    Open,
    Done,
    /// The other side takes no more. It may have answered all the same.
    Failed(io::Error),
}

impl Exchange {
    /// Puts the request's head into the connection's buffer.
    pub(super) fn new(mut pooled: Box<Pooled>, head: Head<'_>, body: &ReplayBody) -> Self {
        let upload = Upload::new(body.attempt());
        head::write(head, upload.left(), pooled.connection.out.joined());
        let (method, upgrade) = (head.method.clone(), head.upgrade);
        let way_out = WayOut::Open;
        Self { pooled, upload, way_out, method, upgrade, keep_alive: false, n_interim: 0, n_seen: 0 }
    }

    /// Sends, and awaits the head of the final answer.
    pub(super) async fn answer(&mut self) -> Result<(Parts, BodyKind), SendFault> {
        poll_fn(|cx| self.poll_answer(cx)).await
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Parts, BodyKind), SendFault>> {
        self.send_on(cx).map_err(SendFault::RequestBody)?;
        loop {
            match ready!(self.connection().poll_read(cx)) {
                Ok(n) if n > 0 => {}
                Ok(_) => return Poll::Ready(Err(self.ended_early(closed()))),
                Err(error) => return Poll::Ready(Err(self.ended_early(error))),
            }
            if let Some(answer) = self.read_head().map_err(SendFault::Malformed)? {
                return Poll::Ready(Ok(answer));
            }
        }
    }

    /// Sends on as far as it goes. A socket that takes no more is no error yet: an answer may be on its way.
    pub(super) fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        if !matches!(self.way_out, WayOut::Open) {
            return Ok(());
        }
        match self.upload.poll(&mut self.pooled.connection, cx) {
            Poll::Pending => self.pooled.connection.wake_if_held(cx),
            Poll::Ready(Ok(())) => self.way_out = WayOut::Done,
            Poll::Ready(Err(UploadFault::Write(error))) => self.way_out = WayOut::Failed(error),
            Poll::Ready(Err(UploadFault::Body(error))) => return Err(error),
        }
        Ok(())
    }

    /// Whether the connection can serve another exchange, now that the answer has ended: the request has gone out
    /// whole, the answer's head does not say otherwise, and nothing came behind the answer's end.
    pub(super) fn is_reusable(&self) -> bool {
        self.keep_alive && matches!(self.way_out, WayOut::Done) && self.pooled.connection.read.is_empty()
    }

    /// Whether a write found the connection reset. The socket has told it then, and a read finds a mere end, even though
    /// bytes may be missing.
    pub(super) fn was_reset(&self) -> bool {
        matches!(&self.way_out, WayOut::Failed(error) if error.kind() == io::ErrorKind::ConnectionReset)
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.pooled.connection
    }

    /// The final answer's head, if it is there; interim ones are passed over.
    fn read_head(&mut self) -> Result<Option<(Parts, BodyKind)>, AnswerError> {
        let buffer = &mut self.pooled.connection.read;
        let seen = std::mem::replace(&mut self.n_seen, buffer.len());
        if !head::may_be_whole(buffer, seen) {
            return Ok(None);
        }
        while let Some(answer) = head::read(buffer, &self.method)? {
            let status = answer.parts.status;
            if !status.is_informational() {
                self.keep_alive = answer.keep_alive;
                return Ok(Some((answer.parts, answer.kind)));
            }
            (self.n_interim, self.n_seen) = (self.n_interim + 1, buffer.len());
            // It is final where it was asked for, names what was asked for, and comes behind the whole request.
            let is_due = self.upgrade && matches!(self.way_out, WayOut::Done);
            if status == StatusCode::SWITCHING_PROTOCOLS && is_due && upgrade::is_made(&answer.parts.headers)
            {
                return Ok(Some((answer.parts, answer.kind)));
            }
            if status == StatusCode::SWITCHING_PROTOCOLS || self.n_interim > MAX_INTERIM {
                return Err(AnswerError::Interim(status.as_u16()));
            }
        }
        Ok(None)
    }

    fn ended_early(&mut self, error: io::Error) -> SendFault {
        let connection = &self.pooled.connection;
        if !connection.read.is_empty() || self.n_interim > 0 {
            return SendFault::Malformed(AnswerError::Incomplete);
        }
        if connection.written == 0 {
            return SendFault::Unsent;
        }
        match std::mem::replace(&mut self.way_out, WayOut::Done) {
            WayOut::Failed(first) => SendFault::Lost(first),
            WayOut::Open | WayOut::Done => SendFault::Lost(error),
        }
    }
}
