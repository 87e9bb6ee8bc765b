//! One exchange on one connection, up to the head of its answer: the request goes out while the answer is awaited.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use http::header::AUTHORIZATION;
use http::response::Parts;
use tokio::time::Instant;

use super::connection::Connection;
use super::fault::{AnswerError, SendFault, closed};
use super::head::{self, BodyKind, Head};
use super::limits::HeadLimits;
use super::logins;
use super::pool::Pooled;
use super::serving::{Serving, WayOut};
use super::upload::{Upload, UploadFault};
use crate::interim;
use crate::replay::{BodyError, ReplayBody};
use crate::upgrade;

/// The most interim answers before a final one.
const MAX_INTERIM: u32 = 16;

/// A connection, and the request that it serves.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) pooled: Box<Pooled>,
}

impl Exchange {
    /// Puts the request's head into the connection's buffer.
    pub(super) fn new(
        mut pooled: Box<Pooled>,
        head: Head<'_>,
        body: &ReplayBody,
        limits: HeadLimits,
    ) -> Self {
        let upload = Upload::new(body.attempt());
        head::write(head, upload.left(), pooled.connection.out.joined());
        pooled.serving = Serving::new(upload, &head, limits);
        pooled.serving.logs_in = head.fields.get_all(AUTHORIZATION).iter().any(logins::is_one);
        Self { pooled }
    }

    /// Sends, and awaits the head of the final answer until `deadline`.
    pub(super) async fn answer(&mut self, deadline: Instant) -> Result<(Parts, BodyKind), SendFault> {
        let answered = |cx: &mut Context<'_>| {
            if let answered @ Poll::Ready(_) = self.poll_answer(cx) {
                return answered;
            }
            ready!(self.connection().clock.poll(deadline, cx));
            self.poll_late()
        };
        poll_fn(answered).await
    }

    /// The deadline has passed. It is the client's doing if its body is what is waited for: then the body's own clock ends the
    /// wait, or the rest of it, which comes too late as well.
    fn poll_late<T>(&mut self) -> Poll<Result<T, SendFault>> {
        let Pooled { connection, serving, .. } = &mut *self.pooled;
        let Serving { upload, late_at, .. } = serving;
        let awaited = upload.awaited().filter(|_| connection.out.is_empty());
        match (awaited, *late_at) {
            (Some(came), None) => *late_at = Some(came),
            (Some(came), Some(before)) if came == before => {}
            (_, Some(_)) => return Poll::Ready(Err(SendFault::RequestBody(BodyError::Late))),
            (None, None) => return Poll::Ready(Err(SendFault::Late)),
        }
        Poll::Pending
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Parts, BodyKind), SendFault>> {
        self.send_on(cx).map_err(SendFault::RequestBody)?;
        loop {
            match ready!(self.connection().poll_read(cx)) {
                Ok(n) if n > 0 => {}
                Ok(_) => return Poll::Ready(Err(self.ended_early(closed()))),
                Err(error) => return Poll::Ready(Err(self.ended_early(error))),
            }
            if let Some(answer) = self.read_head(cx).map_err(SendFault::Malformed)? {
                return Poll::Ready(Ok(answer));
            }
        }
    }

    /// Sends on as far as it goes. A socket that takes no more is no error yet: an answer may be on its way.
    pub(super) fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        let Pooled { connection, serving, .. } = &mut *self.pooled;
        if !matches!(serving.way_out, WayOut::Open) {
            return Ok(());
        }
        match serving.upload.poll(connection, cx) {
            Poll::Pending => connection.wake_if_held(cx),
            Poll::Ready(Ok(())) => serving.way_out = WayOut::Done,
            Poll::Ready(Err(UploadFault::Write(error))) => serving.way_out = WayOut::Failed(error),
            Poll::Ready(Err(UploadFault::Body(error))) => return Err(error),
        }
        Ok(())
    }

    /// Whether the connection can serve another exchange, now that the answer has ended: the request has gone out
    /// whole, the answer's head does not say otherwise, and nothing came behind the answer's end.
    pub(super) fn is_reusable(&self) -> bool {
        let Pooled { connection, serving, .. } = &*self.pooled;
        serving.keep_alive && matches!(serving.way_out, WayOut::Done) && connection.read.is_empty()
    }

    /// Whether a write found the connection reset. The socket has told it then, and a read finds a mere end, even though
    /// bytes may be missing.
    pub(super) fn was_reset(&self) -> bool {
        matches!(&self.pooled.serving.way_out, WayOut::Failed(error) if error.kind() == io::ErrorKind::ConnectionReset)
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.pooled.connection
    }

    /// The final answer's head, if it is there. Of interim ones Early Hints go on to the client.
    fn read_head(&mut self, cx: &Context<'_>) -> Result<Option<(Parts, BodyKind)>, AnswerError> {
        let Pooled { connection, serving, .. } = &mut *self.pooled;
        let buffer = &mut connection.read;
        let seen = std::mem::replace(&mut serving.n_seen, buffer.len());
        if !head::may_be_whole(buffer, seen, serving.limits) {
            return Ok(None);
        }
        while let Some(answer) = head::read(buffer, &serving.method, serving.limits)? {
            let status = answer.parts.status;
            if !status.is_informational() {
                serving.keep_alive = answer.keep_alive && !serving.logs_in;
                return Ok(Some((answer.parts, answer.kind)));
            }
            (serving.n_interim, serving.n_seen) = (serving.n_interim + 1, buffer.len());
            // It is final where it was asked for, names what was asked for, and comes behind the whole request.
            let is_due = serving.upgrade && matches!(serving.way_out, WayOut::Done);
            if status == StatusCode::SWITCHING_PROTOCOLS && is_due && upgrade::is_made(&answer.parts.headers)
            {
                return Ok(Some((answer.parts, answer.kind)));
            }
            if status == StatusCode::SWITCHING_PROTOCOLS || serving.n_interim > MAX_INTERIM {
                return Err(AnswerError::Interim(status.as_u16()));
            }
            interim::pass_on(answer.parts, serving.withheld, cx);
        }
        Ok(None)
    }

    fn ended_early(&mut self, error: io::Error) -> SendFault {
        let Pooled { connection, serving, .. } = &mut *self.pooled;
        if !connection.read.is_empty() || serving.n_interim > 0 {
            return SendFault::Malformed(AnswerError::Incomplete);
        }
        if connection.written == 0 {
            return SendFault::Unsent;
        }
        match std::mem::replace(&mut serving.way_out, WayOut::Done) {
            WayOut::Failed(first) => SendFault::Lost(first),
            WayOut::Open | WayOut::Done => SendFault::Lost(error),
        }
    }
}
