//! The body of an answer that comes on a stream. Dropped before its end, it resets the stream and so cancels the exchange.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::Place;
use super::fault;
use super::upload::Beside;
use crate::trailers::may_trail;
use crate::upstream::body::UpstreamBodyError;

/// An answer's body, streamed.
#[derive(Debug)]
pub(crate) struct Http2Body {
    /// `None` once the body has ended or failed.
    stream: Option<Stream>,
    /// How much of the body is left, where its head says so.
    left: Option<u64>,
    idle: Duration,
    /// Runs while nothing comes; with how much of the request had been sent when it was set.
    timer: Pin<Box<Sleep>>,
    waiting: Option<u64>,
    /// When the body ends whatever is left of it, and by which trailers.
    limit: Option<(Pin<Box<Sleep>>, HeaderMap)>,
}

/// What a body holds of its stream.
#[derive(Debug)]
struct Stream {
    answer: RecvStream,
    data_ended: bool,
    upload: Option<Beside>,
    /// Held for its drop alone.
    _place: Place,
}

impl Http2Body {
    pub(super) fn new(
        answer: RecvStream,
        left: Option<u64>,
        upload: Option<Beside>,
        place: Place,
        idle: Duration,
    ) -> Self {
        let ended = answer.is_end_stream();
        let stream = Stream { answer, data_ended: false, upload, _place: place };
        Self {
            stream: (!ended).then_some(stream),
            left: if ended { Some(0) } else { left },
            idle,
            timer: Box::pin(sleep_until(Instant::now() + idle)),
            waiting: None,
            limit: None,
        }
    }

    /// Ends the body at `at`, with these trailers and in good order, whatever is still to come.
    pub(crate) fn end_by(&mut self, at: Instant, trailers: HeaderMap) {
        self.limit = Some((Box::pin(sleep_until(at)), trailers));
    }

    /// Lets go of the body after a failure: its stream is reset.
    pub(crate) fn give_up(&mut self) {
        self.stream = None;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.stream.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    /// The next frame, or the end.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        // By the clock: one that always has data leaves a timer no turn.
        if self.limit.as_ref().is_some_and(|(limit, _)| limit.deadline() <= Instant::now()) {
            return Poll::Ready(self.over());
        }
        if let Poll::Ready(frame) = stream.poll(cx).map_err(fault::in_body)? {
            self.waiting = None;
            return Poll::Ready(self.took(frame).map(Ok));
        }
        if let Some(upload) = &mut stream.upload
            && let Poll::Ready(error) = upload.poll_failed(cx)
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        if let Some((limit, _)) = &mut self.limit
            && limit.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(self.over());
        }
        ready!(self.poll_idle(cx));
        Poll::Ready(Some(Err(UpstreamBodyError::Idle(self.idle))))
    }

    /// Ends the body by its limit's trailers.
    fn over(&mut self) -> Option<Result<Frame<Bytes>, UpstreamBodyError>> {
        self.end();
        self.limit.take().map(|(_, trailers)| Ok(Frame::trailers(trailers)))
    }

    /// Notes what a frame says about the end.
    fn took(&mut self, frame: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
        let Some(frame) = frame else {
            self.end();
            return None;
        };
        match frame.into_data() {
            Ok(data) => {
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                if self.stream.as_ref().is_some_and(|stream| stream.answer.is_end_stream()) {
                    self.end();
                }
                Some(Frame::data(data))
            }
            Err(frame) => {
                self.end();
                let trailers = frame.into_trailers().unwrap_or_default();
                let trailers: HeaderMap = trailers
                    .iter()
                    .filter(|(name, _)| may_trail(name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                (!trailers.is_empty()).then(|| Frame::trailers(trailers))
            }
        }
    }

    fn end(&mut self) {
        self.stream = None;
        self.left = Some(0);
    }

    /// Ready once nothing has come, and nothing of the request has gone, for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let upload = self.stream.as_ref().and_then(|stream| stream.upload.as_ref());
        let sent = upload.map_or(0, Beside::sent);
        loop {
            if self.waiting.replace(sent) != Some(sent) {
                self.timer.as_mut().reset(Instant::now() + self.idle);
            }
            ready!(self.timer.as_mut().poll(cx));
            if self.waiting == Some(sent) {
                return Poll::Ready(());
            }
        }
    }
}

impl Stream {
    /// The next data, or the trailers; `None` is the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, h2::Error>> {
        if !self.data_ended {
            match ready!(self.answer.poll_data(cx)) {
                Some(data) => {
                    let data = data?;
                    // Who reads this body takes a part only once the one before has gone on.
                    self.answer.flow_control().release_capacity(data.len())?;
                    return Poll::Ready(Ok(Some(Frame::data(data))));
                }
                None => self.data_ended = true,
            }
        }
        let trailers = ready!(self.answer.poll_trailers(cx))?;
        Poll::Ready(Ok(trailers.map(Frame::trailers)))
    }
}
