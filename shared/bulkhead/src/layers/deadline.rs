//! A timeout inside the compartment: how long a call may take at most, told to whoever is called.

use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout_at};
use tower_layer::Layer;
use tower_service::Service;

use super::deadline_body::{DeadlineBody, DeadlinePassed};
use super::{BoxError, BoxFuture};
use crate::lifetime::LIFETIME;

/// When a call is of no use any more. It rides in the extensions of a request, where every layer within finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    at: Instant,
    header: Option<HeaderName>,
}

/// Ends calls by HTTP that take too long, and tells what is left to whoever is called.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::{BoxError, DeadlineLayer, DeadlinePassed};
/// use http::{HeaderName, Request, Response};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), BoxError> {
/// let told = HeaderName::from_static("remaining-ms");
/// let mut service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(1)).header(told.clone()))
///     .service(service_fn(async |request: Request<String>| {
///         assert_eq!(request.headers()["remaining-ms"], "200");
///         tokio::time::sleep(Duration::from_millis(300)).await;
///         Ok::<_, BoxError>(Response::new(String::new()))
///     }));
/// // Its caller waits no longer than that, and so does it.
/// let request = Request::builder().header(told, "200").body(String::new())?;
/// let late = service.ready().await?.call(request).await.unwrap_err();
/// assert_eq!(late.downcast_ref(), Some(&DeadlinePassed(Duration::from_millis(200))));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineLayer {
    timeout: Duration,
    header: Option<HeaderName>,
    bounds_body: bool,
}

/// A service behind a [`DeadlineLayer`].
#[derive(Debug, Clone)]
pub struct DeadlineService<S> {
    inner: S,
    layer: DeadlineLayer,
}

impl Deadline {
    /// A deadline so long from now.
    pub fn after(time: Duration) -> Self {
        Self { at: Instant::now() + time.min(LIFETIME), header: None }
    }

    /// How long is left; zero once it has passed.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Says in the header, where there is one, how long is left.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        if let Some(header) = &self.header {
            let left_ms = u64::try_from(self.left().as_millis()).unwrap_or(u64::MAX);
            headers.insert(header, HeaderValue::from(left_ms));
        }
    }

    fn earlier(self, other: Option<Self>) -> Self {
        let at = other.map_or(self.at, |other| self.at.min(other.at));
        Self { at, ..self }
    }
}

impl DeadlineLayer {
    /// Calls may take `timeout`, the answer's body included. A [`Deadline`] that a request has already bounds it as well: a
    /// caller that has less patience is not kept waiting.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, header: None, bounds_body: true }
    }

    /// The milliseconds that are left go on in `header`, and those that a request brings there bound it as well. Take the
    /// header away from requests whose senders are not trusted with it.
    pub fn header(self, header: HeaderName) -> Self {
        Self { header: Some(header), ..self }
    }

    /// For streams: the deadline is the answer's head's alone, and its body may take any time.
    pub fn head_alone(self) -> Self {
        Self { bounds_body: false, ..self }
    }

    fn deadline<B>(&self, request: &http::Request<B>) -> Deadline {
        let told = self.header.as_ref().and_then(|header| {
            let ms = request.headers().get(header)?.to_str().ok()?.parse().ok()?;
            Some(Deadline::after(Duration::from_millis(ms)))
        });
        let own = Deadline { header: self.header.clone(), ..Deadline::after(self.timeout) };
        own.earlier(told).earlier(request.extensions().get().cloned())
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService { inner, layer: self.clone() }
    }
}

impl<S, B, C> Service<http::Request<B>> for DeadlineService<S>
where
    S: Service<http::Request<B>, Response = http::Response<C>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = http::Response<DeadlineBody<C>>;
    type Error = BoxError;
    type Future = BoxFuture<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let deadline = self.layer.deadline(&request);
        let left = deadline.left();
        if left.is_zero() {
            return Box::pin(async { Err(DeadlinePassed(Duration::ZERO).into()) });
        }
        let (at, bounds_body) = (deadline.at, self.layer.bounds_body);
        deadline.tell(request.headers_mut());
        request.extensions_mut().insert(deadline);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer =
                timeout_at(at, answer).await.map_err(|_| DeadlinePassed(left))?.map_err(Into::into)?;
            Ok(answer.map(|body| DeadlineBody::new(body, bounds_body.then_some((at, DeadlinePassed(left))))))
        })
    }
}
