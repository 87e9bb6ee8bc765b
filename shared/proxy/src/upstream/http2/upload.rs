//! The request's way out on a stream: its body as it comes, and as the other side makes room.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http_body::Body;
use hyper::body::Incoming;
use tokio::task::JoinHandle;

use crate::replay::{Attempt, BodyError};
use crate::trailers::may_trail;

/// A request's body on its way.
#[derive(Debug)]
pub(super) struct Upload<B = Attempt<Incoming>> {
    body: B,
    stream: SendStream<Bytes>,
    /// Data that has no room yet.
    waiting: Bytes,
    sent: Arc<AtomicU64>,
}

/// An upload that goes on beside the answer, in a task of its own: an answer that its client does not take must not
/// hold back the request. Dropping it ends the task, and so what is left of the stream.
#[derive(Debug)]
pub(super) struct Beside {
    task: JoinHandle<Result<(), BodyError>>,
    ended: bool,
    sent: Arc<AtomicU64>,
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Upload<B> {
    pub(super) fn new(body: B, stream: SendStream<Bytes>) -> Self {
        Self { body, stream, waiting: Bytes::new(), sent: Arc::default() }
    }

    /// Sends on. It is ready when all is sent, or the other side takes no more: the answer says then what became of it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        loop {
            if ready!(self.poll_waiting(cx)).is_none() {
                return Poll::Ready(Ok(()));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.waiting = data,
                    Err(frame) => {
                        self.end(frame.into_trailers().ok());
                        return Poll::Ready(Ok(()));
                    }
                },
                Some(Err(error)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(error));
                }
                None => {
                    self.end(None);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Sends what waits, as far as there is room; `None` once the other side takes no more.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        while !self.waiting.is_empty() {
            self.stream.reserve_capacity(self.waiting.len());
            let mut room = self.stream.capacity();
            if room == 0 {
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(more)) => room = more,
                    Some(Err(_)) | None => return Poll::Ready(None),
                }
            }
            let part = self.waiting.split_to(room.min(self.waiting.len()));
            self.sent.fetch_add(part.len() as u64, Ordering::Relaxed);
            if self.stream.send_data(part, false).is_err() {
                return Poll::Ready(None);
            }
        }
        Poll::Ready(Some(()))
    }

    /// A stream that has ended takes no end, which changes nothing.
    fn end(&mut self, trailers: Option<HeaderMap>) {
        let mut trailers = trailers.unwrap_or_default();
        let doomed: Vec<_> = trailers.keys().filter(|name| !may_trail(name)).cloned().collect();
        for name in doomed {
            trailers.remove(name);
        }
        let _ = match trailers.is_empty() {
            true => self.stream.send_data(Bytes::new(), true),
            false => self.stream.send_trailers(trailers),
        };
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin + Send + 'static> Upload<B> {
    /// Goes on in a task.
    pub(super) fn beside(mut self) -> Beside {
        let sent = Arc::clone(&self.sent);
        let task = tokio::spawn(std::future::poll_fn(move |cx| self.poll(cx)));
        Beside { task, ended: false, sent }
    }
}

impl Beside {
    /// Ready with the error of a request body that failed.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        if self.ended {
            return Poll::Pending;
        }
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        self.ended = true;
        match ended {
            Ok(Err(error)) => Poll::Ready(error),
            Ok(Ok(())) | Err(_) => Poll::Pending,
        }
    }

    /// Bytes sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.task.abort();
    }
}
