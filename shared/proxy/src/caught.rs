//! A request that panics is answered, and harms no other one: not on its connection, nor on its worker. What it held is
//! given back as its future is dropped.

use std::any::Any;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use crate::grpc;
use crate::service::Service;

pin_project! {
    /// A future whose panic is its output. It is not polled again then.
    struct Caught<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// The service's answer, the one to a panic of its own included.
pub(crate) async fn answer<S: Service>(
    service: &S,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<S::Body> {
    let is_grpc = grpc::is_called_by(&request);
    match (Caught { future: service.call(peer, request) }).await {
        Ok(response) => response,
        Err(panic) => service.panicked(is_grpc).unwrap_or_else(|| resume_unwind(panic)),
    }
}
