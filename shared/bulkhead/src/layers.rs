//! Layers for tower: a bulkhead, a breaker and a deadline around any service. They are composed from the outside in as retry,
//! breaker, rate limit, deadline, bulkhead, call, so that each attempt needs a place of its own.

mod breaker;
mod bulkhead;
mod deadline;
mod deadline_body;
mod held_body;

use std::error::Error;
use std::future::Future;
use std::pin::Pin;

pub use self::breaker::{BreakerLayer, BreakerService, Verdict, judge_http, judge_status};
pub use self::bulkhead::{BulkheadLayer, BulkheadService, Hold, ToAnswer, ToBodyEnd};
pub use self::deadline::{Deadline, DeadlineLayer, DeadlineService};
pub use self::deadline_body::{DeadlineBody, DeadlinePassed};
pub use self::held_body::HeldBody;

/// What layered services fail with: their own error, or that of the service within.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What layered services return.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;
