//! The body of an upstream's answer. At its end the connection goes back to its pool; before that, dropping it
//! closes the connection and so cancels the exchange.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::pool::{Pool, Pooled};
use crate::replay::ReplayBody;

/// Why an answer's body broke off.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The connection failed, or ended before the declared length.
    #[error("upstream body broke off")]
    Broken(#[from] hyper::Error),
    /// The upstream sent nothing for too long.
    #[error("upstream body was idle for {0:?}")]
    Idle(Duration),
}

/// An answer's body, streamed.
#[derive(Debug)]
pub struct UpstreamBody {
    incoming: Incoming,
    back: Option<(Arc<Pool>, Pooled)>,
    request: ReplayBody,
    idle: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl UpstreamBody {
    pub(super) fn new(
        incoming: Incoming,
        back: (Arc<Pool>, Pooled),
        request: ReplayBody,
        idle: Duration,
    ) -> Self {
        let mut body = Self { incoming, back: Some(back), request, idle, timer: None };
        body.finish_if_ended();
        body
    }

    /// Gives the connection back once both bodies have ended. An answer that came before the request's body was
    /// read leaves the connection half used: it is closed.
    fn finish_if_ended(&mut self) {
        if self.incoming.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some((pool, connection)) = self.back.take()
            && self.request.settled()
        {
            pool.put(connection);
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            let idle = this.idle;
            let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
            ready!(timer.as_mut().poll(cx));
            this.back = None;
            return Poll::Ready(Some(Err(UpstreamBodyError::Idle(idle))));
        };
        this.timer = None;
        match frame {
            Some(Ok(frame)) => {
                this.finish_if_ended();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                this.back = None;
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                this.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
