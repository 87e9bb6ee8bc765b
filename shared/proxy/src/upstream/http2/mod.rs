//! HTTP/2 to an upstream, for one worker: few connections, shared by streams.
//!
//! An exchange reads and writes its stream in the task of the request that it serves, as in HTTP/1.1; the connection
//! itself has a task. This is `h2` without hyper's client around it, which would cost a task and a channel for each
//! request, and would not say what the one rule on retries needs: whether the other side has said that a stream was not
//! executed, and whether anything was written.

mod body;
mod connection;
mod fault;
mod head;
mod limits;
mod pool;
mod upload;
mod wire;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use http::{Method, Response, Version};
use http_body::Body;

pub(super) use self::body::Http2Body;
use self::connection::Place;
pub use self::limits::Http2Limits;
use self::pool::Pool;
use self::upload::Upload;
use super::address::Address;
use super::fault::{AnswerError, ConnectFault, SendFault};
use super::head::Head;
use super::limits::UpstreamLimits;
use super::logins;
use crate::replay::ReplayBody;

/// The connections to one address.
#[derive(Debug, Clone)]
pub(super) struct Http2 {
    pool: Arc<Pool>,
    idle: Duration,
}

/// A place on a connection, for one exchange.
#[derive(Debug)]
pub(super) struct Placed {
    requests: SendRequest<Bytes>,
    place: Place,
    reused: bool,
    idle: Duration,
}

impl Http2 {
    pub(super) fn new(address: Address, limits: UpstreamLimits, http2: Http2Limits) -> Self {
        Self { pool: Arc::new(Pool::new(address, limits, http2)), idle: limits.stream_idle }
    }

    pub(super) async fn place(&self, fresh: bool) -> Result<Placed, ConnectFault> {
        let (requests, place, reused) = self.pool.place(fresh).await?;
        Ok(Placed { requests, place, reused, idle: self.idle })
    }
}

impl Placed {
    /// Whether the connection had served another exchange before.
    pub(super) fn reused(&self) -> bool {
        self.reused
    }

    /// Sends a request and awaits the head of its answer. Dropping the future resets the stream, and so cancels the
    /// exchange.
    ///
    /// # Errors
    ///
    /// [`SendFault`], by what can have been executed.
    pub(super) async fn send(
        self,
        head: Head<'_>,
        body: &ReplayBody,
    ) -> Result<Response<Http2Body>, SendFault> {
        let Self { mut requests, place, idle, .. } = self;
        let attempt = body.attempt();
        let ends = attempt.is_end_stream();
        let length = if ends { Some(0) } else { attempt.size_hint().exact() };
        // What no stream can be opened for, nobody has seen.
        let request = head::request(head, length).ok_or(SendFault::Unsent)?;
        if request.headers().get_all(AUTHORIZATION).iter().any(logins::is_one) {
            place.retire();
        }
        let written = place.written();
        let (mut answer, stream) = requests.send_request(request, ends).map_err(|_| SendFault::Unsent)?;
        drop(requests);
        let mut upload = (!ends).then(|| Upload::new(attempt, stream));
        let response = awaited(&mut answer, &mut upload, || place.written() == written).await?;
        let upload = upload.map(|upload| {
            // From now on silence of the request is silence of the exchange, and that has its own clock.
            body.wait_for_ever();
            upload.beside()
        });
        let (mut parts, stream) = response.into_parts();
        parts.version = Version::HTTP_2;
        if parts.status.as_u16() >= 600 {
            return Err(SendFault::Malformed(AnswerError::Status(parts.status.as_u16())));
        }
        let mut challenges = [WWW_AUTHENTICATE, PROXY_AUTHENTICATE].into_iter();
        if challenges.any(|name| parts.headers.get_all(name).iter().any(logins::is_offered)) {
            place.retire();
        }
        let declared = parts.headers.get(CONTENT_LENGTH).filter(|_| head.method != Method::HEAD);
        let left = declared.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok(Response::from_parts(parts, Http2Body::new(stream, left, upload, place, idle)))
    }
}

/// Sends the request's body while the answer is awaited. An upload that has ended is taken away.
async fn awaited(
    answer: &mut ResponseFuture,
    upload: &mut Option<Upload>,
    unwritten: impl Fn() -> bool,
) -> Result<Response<h2::RecvStream>, SendFault> {
    poll_fn(|cx| {
        if let Some(sending) = upload {
            match sending.poll(cx) {
                Poll::Ready(Ok(())) => *upload = None,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(SendFault::RequestBody(error))),
                Poll::Pending => {}
            }
        }
        let answered = std::pin::Pin::new(&mut *answer).poll(cx);
        answered.map_err(|error| fault::before_answer(error, unwritten()))
    })
    .await
}
