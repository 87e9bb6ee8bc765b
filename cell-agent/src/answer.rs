//! The body of an answer: the backend's, with the request's place riding in it, or the agent's own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use cofferdam_bulkhead::Place;
use cofferdam_proxy::guard::{End, Guarded, OnEnd};
use cofferdam_proxy::upstream::{UpstreamBody, UpstreamBodyError};
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use crate::metrics::{Outcome, Record};

/// An answer's body.
pub(crate) enum AnswerBody {
    Backend(Guarded<UpstreamBody, Release>),
    Own(Full<Bytes>),
}

/// What is given back when the backend's body ends, however it ends.
pub(crate) struct Release {
    pub(crate) status: StatusCode,
    pub(crate) record: Record,
    pub(crate) place: Place,
}

impl OnEnd for Release {
    fn on_end(self, end: End, _bytes: u64) {
        // First, so that whoever reads the counters sees no place that is already counted as given back.
        drop(self.place);
        self.record.end(match end {
            End::Complete if self.status.is_server_error() => Outcome::BackendError,
            End::Complete => Outcome::Served,
            End::Failed => Outcome::Truncated,
            End::Dropped => Outcome::ClientGone,
        });
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        match self.get_mut() {
            Self::Backend(body) => Pin::new(body).poll_frame(cx),
            Self::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never: Infallible| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Backend(body) => body.is_end_stream(),
            Self::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Backend(body) => body.size_hint(),
            Self::Own(body) => body.size_hint(),
        }
    }
}
