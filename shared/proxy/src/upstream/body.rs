//! The body of an answer that came in HTTP/1.1. At its end the connection goes back to its pool; before that, dropping it closes
//! the connection and so cancels the exchange.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderName;
use http::response::Parts;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::chunked::{Decoder, Malformed, Step};
use super::exchange::Exchange;
use super::fault::closed;
use super::head::BodyKind;
use super::pool::Pool;
use super::switched::Switched;
use crate::fields::remove_where;
use crate::replay::BodyError;
use crate::trailers::nominated_trailers;

/// Why an answer's body broke off.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The connection failed, or ended before the body did.
    #[error("upstream body broke off")]
    Broken(#[from] io::Error),
    /// The body is not what its head says.
    #[error("upstream body is malformed")]
    Malformed,
    /// The upstream sent nothing for too long.
    #[error("upstream body was idle for {0:?}")]
    Idle(Duration),
    /// The request's own body failed meanwhile: the client's doing.
    #[error("request body failed")]
    RequestBody(#[from] BodyError),
}

/// An answer's body, streamed.
#[derive(Debug)]
pub(crate) struct Http1Body {
    /// `None` once the body has ended or failed.
    exchange: Option<Exchange>,
    left: Left,
    pool: Arc<Pool>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer runs: nothing has happened since it was set.
    waiting: bool,
}

/// What is left of the body.
#[derive(Debug)]
enum Left {
    Bytes(u64),
    /// With what of the trailers is the connection's own.
    Chunks(Decoder, Box<[HeaderName]>),
    UntilClose,
}

impl Http1Body {
    pub(super) fn new(exchange: Exchange, head: &Parts, kind: BodyKind, pool: Arc<Pool>) -> Self {
        let left = match kind {
            BodyKind::Length(bytes) => Left::Bytes(bytes),
            BodyKind::Chunked => Left::Chunks(Decoder::default(), nominated_trailers(&head.headers)),
            BodyKind::Close => Left::UntilClose,
        };
        let mut body = Self { exchange: Some(exchange), left, pool, timer: None, waiting: false };
        if kind == BodyKind::Length(0) {
            body.end();
        }
        body
    }

    /// The connection, once its protocol has changed; only a 101's body has one.
    pub(super) fn into_switched(self) -> Option<Switched> {
        self.exchange.map(|exchange| Switched::new(exchange.pooled, self.pool.limits.stream_idle))
    }

    /// Gives the connection back, or closes it where it cannot serve again.
    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take()
            && exchange.is_reusable()
        {
            self.pool.put(exchange.pooled);
        }
        self.left = Left::Bytes(0);
    }

    /// Lets go of the body after a failure: what is left on its connection belongs to nobody, which is closed.
    pub(super) fn give_up(&mut self) {
        self.exchange = None;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.exchange.is_none()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.left {
            Left::Bytes(left) => SizeHint::with_exact(left),
            Left::Chunks(..) | Left::UntilClose => SizeHint::default(),
        }
    }

    /// A frame out of what has been read already; `None` where more has to be read.
    fn decode(&mut self) -> Result<Option<Frame<Bytes>>, UpstreamBodyError> {
        let Some(exchange) = &mut self.exchange else { return Ok(None) };
        let buffer = &mut exchange.pooled.connection.read;
        match &mut self.left {
            _ if buffer.is_empty() => Ok(None),
            Left::Bytes(left) => {
                let n = (buffer.len() as u64).min(*left);
                *left -= n;
                let (data, ended) = (buffer.split_to(n as usize).freeze(), *left == 0);
                if ended {
                    self.end();
                }
                Ok(Some(Frame::data(data)))
            }
            Left::UntilClose => Ok(Some(Frame::data(buffer.split().freeze()))),
            Left::Chunks(decoder, nominated) => match decoder.step(buffer) {
                Ok(Step::Data(data)) => Ok(Some(Frame::data(data))),
                Ok(Step::More) => Ok(None),
                Ok(Step::End(trailers)) => {
                    let mut trailers = trailers.unwrap_or_default();
                    remove_where(&mut trailers, |name| nominated.contains(name));
                    self.end();
                    Ok((!trailers.is_empty()).then(|| Frame::trailers(trailers)))
                }
                Err(Malformed) => Err(UpstreamBodyError::Malformed),
            },
        }
    }

    /// The next frame, or the end.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        loop {
            if let Some(frame) = self.decode()? {
                return Poll::Ready(Some(Ok(frame)));
            }
            let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
            let written = exchange.connection().written;
            exchange.send_on(cx)?;
            // An upstream that takes the request's body is not idle.
            self.waiting &= exchange.connection().written == written;
            match exchange.connection().poll_read(cx) {
                Poll::Ready(Ok(0)) if matches!(self.left, Left::UntilClose) && !exchange.was_reset() => {
                    self.end()
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(Err(closed().into()))),
                Poll::Ready(Ok(_)) => self.waiting = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Pending => {
                    ready!(self.poll_idle(cx));
                    return Poll::Ready(Some(Err(UpstreamBodyError::Idle(self.pool.limits.stream_idle))));
                }
            }
        }
    }

    /// Ready once nothing has come for too long. The timer is made once and set anew for each wait.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = || Instant::now() + self.pool.limits.stream_idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline())));
        if !std::mem::replace(&mut self.waiting, true) {
            timer.as_mut().reset(deadline());
        }
        timer.as_mut().poll(cx)
    }
}
