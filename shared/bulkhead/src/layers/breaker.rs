//! A breaker around a service, and what is a failure of it.

use std::error::Error;
use std::fmt;
use std::task::{Context, Poll};

use http::StatusCode;
use tower_layer::Layer;
use tower_service::Service;

use super::{BoxError, BoxFuture};
use crate::breaker::{Breaker, Open};
use crate::denied::Denied;
use crate::refusal::Refused;

/// What an outcome says of the dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did its work.
    Succeeded,
    /// It failed.
    Failed,
    /// Nothing.
    Unknown,
}

/// Leaves a service alone while its breaker is open: calls then fail with [`Open`], and it is not asked. Calls whose callers go
/// away say nothing of it.
///
/// ```
/// use cofferdam_bulkhead::{BoxError, Breaker, BreakerLayer, BreakerPolicy, Open, judge_http};
/// use http::{Request, Response, StatusCode};
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), BoxError> {
/// let mut payment = ServiceBuilder::new()
///     .layer(BreakerLayer::new(Breaker::new(BreakerPolicy::default()), judge_http))
///     .service(service_fn(async |_: Request<()>| {
///         Ok::<_, BoxError>(Response::builder().status(StatusCode::BAD_GATEWAY).body(())?)
///     }));
/// for _ in 0..5 {
///     assert_eq!(payment.ready().await?.call(Request::new(())).await?.status(), StatusCode::BAD_GATEWAY);
/// }
/// let open = payment.ready().await?.call(Request::new(())).await.unwrap_err();
/// assert!(open.is::<Open>());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BreakerLayer<J> {
    breaker: Breaker,
    judge: J,
}

/// A service behind a [`BreakerLayer`].
#[derive(Clone)]
pub struct BreakerService<S, J> {
    inner: S,
    layer: BreakerLayer<J>,
}

impl<J> BreakerLayer<J> {
    /// Calls pass `breaker`, and `judge` says of each outcome what it tells: [`judge_http`] does for answers by HTTP.
    pub fn new<T>(breaker: Breaker, judge: J) -> Self
    where
        J: Fn(&Result<T, BoxError>) -> Verdict,
    {
        Self { breaker, judge }
    }
}

/// 5xx are failures. 429 says nothing: it concerns its caller alone. Any other answer, 4xx too, shows that somebody is there and
/// works.
pub fn judge_status(status: StatusCode) -> Verdict {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Verdict::Unknown,
        status if status.is_server_error() => Verdict::Failed,
        _ => Verdict::Succeeded,
    }
}

/// Errors are failures, and answers are judged by [their status](judge_status). What we refused ourselves says nothing: a full
/// bulkhead or compartment, another breaker that is open.
pub fn judge_http<B>(outcome: &Result<http::Response<B>, BoxError>) -> Verdict {
    match outcome {
        Err(error) if is_own_refusal(&**error) => Verdict::Unknown,
        Err(_) => Verdict::Failed,
        Ok(answer) => judge_status(answer.status()),
    }
}

fn is_own_refusal(error: &(dyn Error + 'static)) -> bool {
    let is_refusal = error.is::<Denied>() || error.is::<Refused>() || error.is::<Open>();
    is_refusal || error.source().is_some_and(is_own_refusal)
}

impl<S, J: Clone> Layer<S> for BreakerLayer<J> {
    type Service = BreakerService<S, J>;

    fn layer(&self, inner: S) -> Self::Service {
        BreakerService { inner, layer: self.clone() }
    }
}

impl<S, J, Request> Service<Request> for BreakerService<S, J>
where
    S: Service<Request, Error: Into<BoxError>, Response: Send, Future: Send + 'static>,
    J: Fn(&Result<S::Response, BoxError>) -> Verdict + Clone + Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<S::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let pass = match self.layer.breaker.pass() {
            Ok(pass) => pass,
            Err(open) => return Box::pin(async move { Err(open.into()) }),
        };
        let (outcome, judge) = (self.inner.call(request), self.layer.judge.clone());
        Box::pin(async move {
            let outcome = outcome.await.map_err(Into::into);
            match judge(&outcome) {
                Verdict::Succeeded => drop(pass.succeeded()),
                Verdict::Failed => drop(pass.failed()),
                Verdict::Unknown => drop(pass),
            }
            outcome
        })
    }
}

impl<J> fmt::Debug for BreakerLayer<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, J> fmt::Debug for BreakerService<S, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerService").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}
