//! The body of an upstream's answer, whichever protocol it came by.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::body::{Http1Body, UpstreamBodyError};
use super::http2::Http2Body;
use super::switched::Switched;

/// An answer's body, streamed. Dropped before its end, it cancels the exchange.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every answer has the large one, which a box would cost"
)]
pub enum UpstreamBody {
    /// On a connection of its own.
    Http1(Http1Body),
    /// On a stream.
    Http2(Box<Http2Body>),
}

impl UpstreamBody {
    /// Ends the body at `at`, by these trailers and in good order, whatever is still to come. Only a body on a stream
    /// can be ended so: another goes on.
    pub fn end_by(&mut self, at: Instant, trailers: HeaderMap) {
        if let Self::Http2(body) = self {
            body.end_by(at, trailers);
        }
    }
}

impl UpstreamBody {
    /// The connection, once its protocol has changed; only a 101's body has one, and there is none in HTTP/2.
    pub(crate) fn into_switched(self) -> Option<Switched> {
        match self {
            Self::Http1(body) => body.into_switched(),
            Self::Http2(_) => None,
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
        match self.get_mut() {
            Self::Http1(body) => Pin::new(body).poll_frame(cx),
            Self::Http2(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}
