//! A request body that can be sent more than once: what an attempt has read is kept, up to a bound, for the next.
//!
//! The source is read once. An attempt first yields what is kept, then reads on. A body that has outgrown the bound
//! can no longer be replayed, and says so; it still streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::trailers::Withheld;

/// The most bytes that are kept for another attempt.
pub const REPLAY_BYTES: usize = 64 * 1024;

/// The most pieces in which bytes are kept.
const KEPT_PIECES: usize = 64;

/// What a body's source may fail with.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// More bytes than the caller allows.
    #[error("request body exceeds {0} bytes")]
    TooLarge(u64),
    /// The client sent nothing for too long.
    #[error("request body was idle for {0:?}")]
    Idle(Duration),
    /// The answer's deadline passed while the client still had to send some of it.
    #[error("request body was not whole by the deadline")]
    Late,
    /// The client's connection failed.
    #[error("request body could not be read")]
    Read(#[source] BoxError),
    /// The client gave its stream up.
    #[error("request body was cancelled")]
    Cancelled,
    /// A part of the body that an earlier attempt read is not kept, or a later attempt has begun.
    #[error("request body can not be replayed")]
    Spent,
}

/// The bounds on a request body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The most bytes of data.
    pub max_bytes: u64,
    /// The longest silence while bytes are awaited.
    pub idle: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { max_bytes: 10 * 1024 * 1024, idle: Duration::from_secs(30) }
    }
}

/// A request body and what has been kept of it.
#[derive(Debug)]
pub struct ReplayBody<B = Incoming> {
    /// `None`: the request has no body, which costs nothing to replay.
    shared: Option<Arc<Mutex<Source<B>>>>,
}

#[derive(Debug)]
struct Source<B> {
    body: B,
    limits: BodyLimits,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether silence is nobody's business here.
    patient: bool,
    /// The data read so far, while `replayable`, in at most [`KEPT_PIECES`] pieces.
    kept: Vec<Bytes>,
    read: u64,
    replayable: bool,
    trailers: Option<HeaderMap>,
    /// Which trailers are dropped.
    withheld: Withheld,
    /// Without a word of the body's own that it has ended, it was broken off.
    says_its_end: bool,
    ended: bool,
    /// Whether the last look found that the client has to send more first.
    waits: bool,
    /// When the last of what had to be waited for came.
    came: Option<Instant>,
    /// The number of the attempt that may read: the latest.
    turn: u32,
}

/// One attempt's view of the body.
#[derive(Debug)]
pub struct Attempt<B = Incoming> {
    shared: Option<Arc<Mutex<Source<B>>>>,
    turn: u32,
    /// How many bytes this attempt has yielded.
    yielded: u64,
    trailers_sent: bool,
    size: SizeHint,
}

impl<B> Clone for ReplayBody<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<B: Body> ReplayBody<B> {
    /// Takes over `body`.
    pub fn new(body: B, limits: BodyLimits) -> Self {
        Self::without(body, Version::HTTP_11, limits, Withheld::nothing)
    }

    /// Takes over `body`, which came in `version`, and drops trailers; which ones is asked where there is a body.
    pub fn without(body: B, version: Version, limits: BodyLimits, which: impl FnOnce() -> Withheld) -> Self {
        if body.is_end_stream() {
            return Self { shared: None };
        }
        let source = Source {
            body,
            limits,
            timer: None,
            patient: false,
            kept: Vec::new(),
            read: 0,
            replayable: true,
            trailers: None,
            withheld: which(),
            // hyper takes a reset with NO_ERROR for the end of a body of HTTP/2: half an upload would go on as
            // a whole one.
            says_its_end: version == Version::HTTP_2,
            ended: false,
            waits: false,
            came: None,
            turn: 0,
        };
        Self { shared: Some(Arc::new(Mutex::new(source))) }
    }

    /// A request without a body.
    pub fn empty() -> Self {
        Self { shared: None }
    }

    /// Whether the request has no body.
    pub fn is_empty(&self) -> bool {
        self.shared.is_none()
    }

    /// Whether another attempt would send the same bytes.
    pub fn replayable(&self) -> bool {
        self.shared.as_ref().is_none_or(|source| source.lock().replayable)
    }

    /// From now on nothing is too long a silence: whoever streams the body has a clock of its own.
    pub fn wait_for_ever(&self) {
        if let Some(source) = &self.shared {
            let mut source = source.lock();
            source.patient = true;
            source.timer = None;
        }
    }

    /// Whether the client has to send more before the request can go on.
    pub fn waits(&self) -> bool {
        self.shared.as_ref().is_some_and(|source| source.lock().waits)
    }

    /// When the last part came that the client was waited for, if it was: what went before is the client's own time.
    pub fn came(&self) -> Option<Instant> {
        self.shared.as_ref().and_then(|source| source.lock().came)
    }

    /// The length that the client declared, if it did.
    pub fn declared(&self) -> Option<u64> {
        match &self.shared {
            None => Some(0),
            Some(source) => source.lock().body.size_hint().exact(),
        }
    }

    /// A view from the first byte, for one attempt. Only the latest attempt reads: the connection of an earlier one may
    /// still be busy with it, and would take bytes away from this one.
    pub fn attempt(&self) -> Attempt<B> {
        let (turn, size) = match &self.shared {
            None => (0, SizeHint::with_exact(0)),
            Some(source) => source.lock().next_turn(),
        };
        Attempt { shared: self.shared.clone(), turn, yielded: 0, trailers_sent: false, size }
    }
}

impl<B> Attempt<B> {
    /// How many bytes of the body have come, if its client is waited for.
    pub(crate) fn awaited(&self) -> Option<u64> {
        let source = self.shared.as_ref()?.lock();
        source.timer.is_some().then_some(source.read)
    }
}

impl<B: Body> Source<B> {
    fn next_turn(&mut self) -> (u32, SizeHint) {
        self.turn += 1;
        (self.turn, self.whole_size())
    }

    /// What is kept from the byte at `start` on, as far as it is in one piece.
    fn kept_from(&self, start: u64) -> Option<Bytes> {
        let mut skip = usize::try_from(start).ok()?;
        for piece in &self.kept {
            match piece.len().checked_sub(skip) {
                Some(1..) => return Some(piece.slice(skip..)),
                _ => skip -= piece.len(),
            }
        }
        None
    }

    /// The size of the whole body: what was read and what is still to come.
    fn whole_size(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(rest) => SizeHint::with_exact(self.read + rest),
            None => SizeHint::default(),
        }
    }
}

impl<B> Source<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Reads one more data frame, and keeps it while the bound allows.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                self.waits = true;
                return self.poll_idle(cx);
            };
            self.timer = None;
            if std::mem::take(&mut self.waits) {
                self.came = Some(Instant::now());
            }
            match frame {
                None if self.says_its_end && !self.body.is_end_stream() => {
                    return Poll::Ready(Some(Err(BodyError::Cancelled)));
                }
                None => self.ended = true,
                Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::Read(error.into())))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(self.keep(data))),
                    Err(frame) => {
                        let mut trailers = frame.into_trailers().unwrap_or_default();
                        self.withheld.clean(&mut trailers);
                        self.trailers = (!trailers.is_empty()).then_some(trailers);
                    }
                },
            }
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.patient {
            return Poll::Pending;
        }
        let idle = self.limits.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Idle(idle))))
    }

    fn keep(&mut self, data: Bytes) -> Result<Bytes, BodyError> {
        self.read += data.len() as u64;
        if self.read > self.limits.max_bytes {
            return Err(BodyError::TooLarge(self.limits.max_bytes));
        }
        if self.read > REPLAY_BYTES as u64 {
            self.replayable = false;
            self.kept = Vec::new();
        } else if self.replayable {
            if self.kept.len() == KEPT_PIECES {
                // A piece has its own cost, however few bytes it has.
                self.kept = vec![Bytes::from(self.kept.concat())];
            }
            self.kept.push(data.clone());
        }
        if self.body.is_end_stream() {
            self.ended = true;
        }
        Ok(data)
    }
}

impl<B> Body for Attempt<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(shared) = &this.shared else { return Poll::Ready(None) };
        let mut source = shared.lock();
        if source.turn != this.turn {
            return Poll::Ready(Some(Err(BodyError::Spent)));
        }
        if let Some(data) = source.kept_from(this.yielded) {
            this.yielded += data.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        // The first attempt streams on past the bound; a later one would miss the bytes that were let go.
        if !source.replayable && this.yielded == 0 && source.read > 0 {
            return Poll::Ready(Some(Err(BodyError::Spent)));
        }
        match ready!(source.poll_next(cx)) {
            Some(Ok(data)) => {
                this.yielded += data.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                let trailers =
                    source.trailers.clone().filter(|_| !std::mem::replace(&mut this.trailers_sent, true));
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.shared.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

#[cfg(test)]
mod tests;
