//! A body of an answer that ends at a deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::BoxError;

/// A call took longer than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed after {0:?}")]
pub struct DeadlinePassed(
    /// How long the call had.
    pub Duration,
);

pin_project! {
    /// A body that fails with [`DeadlinePassed`] where it has not ended at its deadline. What it holds is let go then.
    #[derive(Debug)]
    pub struct DeadlineBody<B> {
        // `None` once the deadline has passed.
        #[pin]
        body: Option<B>,
        deadline: Option<(Pin<Box<Sleep>>, DeadlinePassed)>,
    }
}

impl<B> DeadlineBody<B> {
    pub(super) fn new(body: B, deadline: Option<(Instant, DeadlinePassed)>) -> Self {
        let deadline = deadline.map(|(at, passed)| (Box::pin(sleep_until(at)), passed));
        Self { body: Some(body), deadline }
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for DeadlineBody<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(body) = this.body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = body.poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some((sleep, passed)) = this.deadline else { return Poll::Pending };
        ready!(sleep.as_mut().poll(context));
        this.body.set(None);
        Poll::Ready(Some(Err((*passed).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}
