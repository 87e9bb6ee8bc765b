//! A body of an answer that holds a place to its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::bulkhead::BulkheadPlace;

pin_project! {
    /// A body that holds a place until it ends, fails or is dropped.
    #[derive(Debug)]
    pub struct HeldBody<B> {
        #[pin]
        body: B,
        // `None` once it was released.
        place: Option<BulkheadPlace>,
    }
}

impl<B: Body> HeldBody<B> {
    pub(super) fn new(body: B, place: BulkheadPlace) -> Self {
        // Nobody polls a body that has ended before it began.
        let place = (!body.is_end_stream()).then_some(place);
        Self { body, place }
    }
}

impl<B: Body> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        // Whoever knows the end beforehand does not poll for it.
        if !matches!(frame, Some(Ok(_))) || this.body.is_end_stream() {
            *this.place = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
