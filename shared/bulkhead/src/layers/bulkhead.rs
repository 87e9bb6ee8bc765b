//! A place for each call, taken by the call itself and held as long as it is at work.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::deadline::Deadline;
use super::held_body::HeldBody;
use super::{BoxError, BoxFuture};
use crate::bulkhead::{Bulkhead, BulkheadPlace};

/// Gives each call a place in a bulkhead: none before it is called, however often it is asked whether it is ready, so that a
/// connection that is idle holds none.
///
/// ```
/// use cofferdam_bulkhead::{BoxError, Bulkhead, BulkheadLayer, Denied};
/// use http::{Request, Response};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let bulkhead = Bulkhead::new("payment", 1);
/// let mut payment = ServiceBuilder::new()
///     .layer(BulkheadLayer::new(bulkhead.clone()))
///     .service(service_fn(async |_: Request<String>| Ok::<_, BoxError>(Response::new("paid".to_owned()))));
///
/// let answer = payment.ready().await?.call(Request::new(String::new())).await?;
/// // The body is not read yet: the call is still at work.
/// let denied = payment.ready().await?.call(Request::new(String::new())).await.unwrap_err();
/// assert!(Denied::is_cause_of(&*denied));
/// drop(answer);
/// assert!(payment.ready().await?.call(Request::new(String::new())).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct BulkheadLayer<H = ToBodyEnd> {
    bulkhead: Bulkhead,
    hold: PhantomData<fn() -> H>,
}

/// A service behind a [`BulkheadLayer`].
pub struct BulkheadService<S, H = ToBodyEnd> {
    inner: S,
    layer: BulkheadLayer<H>,
}

/// How long a call holds its place.
pub trait Hold<Request, Response> {
    /// An answer that may hold a place.
    type Held;

    /// How long the call may wait for its place at most.
    fn patience(_request: &Request) -> Duration {
        Duration::MAX
    }

    /// The call has its place, and begins.
    fn begin(_request: &mut Request) {}

    /// The call was answered.
    fn hold(response: Response, place: BulkheadPlace) -> Self::Held;
}

/// A call by HTTP holds its place until the answer's body ends, fails or is dropped. Where it has a [`Deadline`] it waits for a
/// place for a quarter of what is left at most, and tells what is left when it begins.
#[derive(Debug)]
pub enum ToBodyEnd {}

/// A call holds its place until it is answered.
#[derive(Debug)]
pub enum ToAnswer {}

impl<B, C: Body> Hold<http::Request<B>, http::Response<C>> for ToBodyEnd {
    type Held = http::Response<HeldBody<C>>;

    fn patience(request: &http::Request<B>) -> Duration {
        request.extensions().get::<Deadline>().map_or(Duration::MAX, |deadline| deadline.left() / 4)
    }

    fn begin(request: &mut http::Request<B>) {
        if let Some(deadline) = request.extensions().get::<Deadline>().cloned() {
            deadline.tell(request.headers_mut());
        }
    }

    fn hold(response: http::Response<C>, place: BulkheadPlace) -> Self::Held {
        response.map(|body| HeldBody::new(body, place))
    }
}

impl<Request, Response> Hold<Request, Response> for ToAnswer {
    type Held = Response;

    fn hold(response: Response, _place: BulkheadPlace) -> Response {
        response
    }
}

impl BulkheadLayer<ToBodyEnd> {
    /// Places of `bulkhead`, held until the answer's body ends.
    pub fn new(bulkhead: Bulkhead) -> Self {
        Self { bulkhead, hold: PhantomData }
    }
}

impl BulkheadLayer<ToAnswer> {
    /// Places of `bulkhead`, held until the answer is there, for whatever has no body.
    pub fn to_answer(bulkhead: Bulkhead) -> Self {
        Self { bulkhead, hold: PhantomData }
    }
}

impl<S, H> Layer<S> for BulkheadLayer<H> {
    type Service = BulkheadService<S, H>;

    fn layer(&self, inner: S) -> Self::Service {
        BulkheadService { inner, layer: self.clone() }
    }
}

impl<S, H, Request> Service<Request> for BulkheadService<S, H>
where
    S: Service<Request, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    H: Hold<Request, S::Response>,
    Request: Send + 'static,
{
    type Response = H::Held;
    type Error = BoxError;
    type Future = BoxFuture<H::Held>;

    /// At once: whatever the service within sets aside to be ready is set aside once the call has a place.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let (mut inner, bulkhead) = (self.inner.clone(), self.layer.bulkhead.clone());
        Box::pin(async move {
            let place = bulkhead.acquire_within(H::patience(&request)).await?;
            poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
            H::begin(&mut request);
            let response = inner.call(request).await.map_err(Into::into)?;
            Ok(H::hold(response, place))
        })
    }
}

// What says how long a place is held is never there, so it need not be cloned or shown.

impl<H> Clone for BulkheadLayer<H> {
    fn clone(&self) -> Self {
        Self { bulkhead: self.bulkhead.clone(), hold: PhantomData }
    }
}

impl<S: Clone, H> Clone for BulkheadService<S, H> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<H> fmt::Debug for BulkheadLayer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BulkheadLayer").field(&self.bulkhead).finish()
    }
}

impl<S: fmt::Debug, H> fmt::Debug for BulkheadService<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadService").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}
