//! A request that panics is answered, and harms no other one: not on its connection, nor on its worker. What it held is
//! given back as its future is dropped.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;

use crate::grpc;
use crate::service::Service;

/// A call of a service, whose panic is answered. It is not polled again then.
struct Caught<'s, S, F> {
    // In a box for as long as it is needed: an idle connection has no room for it, and who hands it on moves a pointer.
    call: Pin<Box<F>>,
    service: &'s S,
    is_grpc: bool,
}

impl<S: Service, F: Future<Output = Response<S::Body>>> Future for Caught<'_, S, F> {
    type Output = Response<S::Body>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match catch_unwind(AssertUnwindSafe(|| this.call.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                let answer = this.service.panicked(this.is_grpc);
                Poll::Ready(answer.unwrap_or_else(|| resume_unwind(panic)))
            }
        }
    }
}

/// The service's answer, the one to a panic of its own included. No `async fn`: that would keep a second request, and move
/// the call about.
pub(crate) fn answer<S: Service>(
    service: &S,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> impl Future<Output = Response<S::Body>> + Send {
    let is_grpc = grpc::is_called_by(&request);
    // Written to where it stays: a call is large, and would be made elsewhere and moved.
    let call = Box::write(Box::new_uninit(), service.call(peer, request));
    Caught { call: Box::into_pin(call), service, is_grpc }
}
