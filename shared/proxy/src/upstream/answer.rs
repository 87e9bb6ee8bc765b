//! The body of an upstream's answer, whichever protocol it came by.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::body::{Http1Body, UpstreamBodyError};
use super::http2::Http2Body;
use super::switched::Switched;

/// An answer's body, streamed. Dropped before its end, it cancels the exchange.
#[derive(Debug)]
pub struct UpstreamBody {
    source: Source,
    /// An error that is told at the next turn.
    failed: Option<UpstreamBodyError>,
}

#[derive(Debug)]
enum Source {
    /// A connection of its own.
    Http1(Http1Body),
    /// A stream.
    Http2(Box<Http2Body>),
}

impl From<Http1Body> for UpstreamBody {
    fn from(body: Http1Body) -> Self {
        Self { source: Source::Http1(body), failed: None }
    }
}

impl From<Http2Body> for UpstreamBody {
    fn from(body: Http2Body) -> Self {
        Self { source: Source::Http2(Box::new(body)), failed: None }
    }
}

impl UpstreamBody {
    /// Ends the body at `at`, by these trailers and in good order, whatever is still to come. Only a body on a stream
    /// can be ended so: another goes on.
    pub fn end_by(&mut self, at: Instant, trailers: HeaderMap) {
        if let Source::Http2(body) = &mut self.source {
            body.end_by(at, trailers);
        }
    }

    /// The connection, once its protocol has changed; only a 101's body has one, and there is none in HTTP/2.
    pub(crate) fn into_switched(self) -> Option<Switched> {
        match self.source {
            Source::Http1(body) => body.into_switched(),
            Source::Http2(_) => None,
        }
    }
}

impl Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        match self {
            Self::Http1(body) => body.poll_next(cx),
            Self::Http2(body) => body.poll_next(cx),
        }
    }

    fn give_up(&mut self) {
        match self {
            Self::Http1(body) => body.give_up(),
            Self::Http2(body) => body.give_up(),
        }
    }

    fn is_ended(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_ended(),
            Self::Http2(body) => body.is_ended(),
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
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(this.source.poll_next(cx)) {
            Some(Err(error)) => {
                // The error waits for one turn, in which whoever relays this body can write out what came before it.
                this.source.give_up();
                this.failed = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.source.is_ended()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Http1(body) => body.size_hint(),
            Source::Http2(body) => body.size_hint(),
        }
    }
}
