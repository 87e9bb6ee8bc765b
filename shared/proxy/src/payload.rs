//! The body of an answer: an upstream's, streamed, or one of our own, whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use crate::fields;
use crate::upstream::{UpstreamBody, UpstreamBodyError};

/// What a body's bytes come from.
#[derive(Debug)]
pub enum Payload {
    /// An upstream, streamed. Trailers for which the function answers true are dropped.
    Upstream(UpstreamBody, fn(&HeaderName) -> bool),
    /// This process.
    Whole(Full<Bytes>),
}

impl Default for Payload {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        match self.get_mut() {
            Self::Upstream(body, internal) => {
                Pin::new(body).poll_frame(cx).map_ok(|frame| without(frame, *internal))
            }
            Self::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Upstream(body, _) => body.is_end_stream(),
            Self::Whole(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Upstream(body, _) => body.size_hint(),
            Self::Whole(body) => body.size_hint(),
        }
    }
}

/// HTTP/1.1 sends no trailer that was not announced, and what is announced was looked at; HTTP/2 sends all.
fn without(frame: Frame<Bytes>, internal: fn(&HeaderName) -> bool) -> Frame<Bytes> {
    if frame.is_data() {
        return frame;
    }
    match frame.into_trailers() {
        Ok(mut trailers) => {
            fields::strip_where(&mut trailers, internal);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}
