//! A response body that carries something which must be given back when the body ends, however it ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

/// How a body came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The last byte was handed on.
    Complete,
    /// The body's source failed.
    Failed,
    /// The receiver went away first.
    Dropped,
}

/// What is told of a body's end, exactly once.
pub trait OnEnd {
    /// The body ended.
    fn on_end(self, end: End);

    /// These bytes of the body go on.
    fn on_data(&mut self, _data: &Bytes) {}

    /// These fields come behind the body, and may be changed before they go on; its end is told all the same.
    fn on_trailers(&mut self, _trailers: &mut HeaderMap) {}
}

impl<G: OnEnd> OnEnd for Option<G> {
    fn on_end(self, end: End) {
        if let Some(guard) = self {
            guard.on_end(end);
        }
    }

    fn on_data(&mut self, data: &Bytes) {
        if let Some(guard) = self {
            guard.on_data(data);
        }
    }

    fn on_trailers(&mut self, trailers: &mut HeaderMap) {
        if let Some(guard) = self {
            guard.on_trailers(trailers);
        }
    }
}

impl<G: OnEnd> OnEnd for Box<G> {
    fn on_end(self, end: End) {
        G::on_end(*self, end);
    }

    fn on_data(&mut self, data: &Bytes) {
        G::on_data(self, data);
    }

    fn on_trailers(&mut self, trailers: &mut HeaderMap) {
        G::on_trailers(self, trailers);
    }
}

/// A body that tells its guard of its end exactly once: at the last frame, at an error, or when it is dropped.
#[derive(Debug)]
pub struct Guarded<B: Body, G: OnEnd> {
    body: B,
    guard: Option<G>,
}

impl<B: Body, G: OnEnd> Guarded<B, G> {
    /// `body`, with `guard` riding in it.
    pub fn new(body: B, guard: G) -> Self {
        Self { body, guard: Some(guard) }
    }

    fn end(&mut self, end: End) {
        if let Some(guard) = self.guard.take() {
            guard.on_end(end);
        }
    }
}

impl<B, G> Body for Guarded<B, G>
where
    B: Body<Data = Bytes> + Unpin,
    G: OnEnd + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let mut frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &mut frame {
            Some(Ok(frame)) => {
                if let Some(guard) = &mut this.guard {
                    if let Some(data) = frame.data_ref() {
                        guard.on_data(data);
                    } else if let Some(trailers) = frame.trailers_mut() {
                        guard.on_trailers(trailers);
                    }
                }
                if this.body.is_end_stream() {
                    this.end(End::Complete);
                }
            }
            Some(Err(_)) => this.end(End::Failed),
            None => this.end(End::Complete),
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

impl<B: Body, G: OnEnd> Drop for Guarded<B, G> {
    fn drop(&mut self) {
        let end = if self.body.is_end_stream() { End::Complete } else { End::Dropped };
        self.end(end);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::{BodyExt, Empty, Full};

    use super::*;

    #[derive(Clone, Default)]
    struct Ends(Arc<Mutex<Vec<End>>>);

    impl OnEnd for Ends {
        fn on_end(self, end: End) {
            self.0.lock().unwrap().push(end);
        }
    }

    #[tokio::test]
    async fn each_way_to_end_is_told_once() {
        let ends = Ends::default();
        let whole = Guarded::new(Full::new(Bytes::from_static(b"four")), ends.clone());
        whole.collect().await.unwrap();
        drop(Guarded::new(Full::new(Bytes::from_static(b"four")), ends.clone()));
        drop(Guarded::new(Empty::<Bytes>::new(), ends.clone()));
        let told = ends.0.lock().unwrap().clone();
        assert_eq!(told, [End::Complete, End::Dropped, End::Complete]);
    }
}
