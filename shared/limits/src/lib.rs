//! Fleet-wide limits: how fast (a token bucket), how many at once (permits), how much in a day or a month (sliding
//! windows) and how evenly (a shape), level by level.
//!
//! A request brings a [`Demand`]: whose it is, what it costs, and the [`Levels`] that it must pass, from wide to narrow.
//! [`Limits::admit`] answers at once from memory, or with a [`PendingAdmission`] where the store has to be asked. All
//! levels are taken or none. A refusal names the strictest level and says when to come back; a denial changes
//! nothing. What was admitted is a [`Permit`], which can be released from any thread, and is released exactly once.
//!
//! The rules of the bucket, in whole numbers:
//!
//! - a rate is N tokens per P microseconds; the level is kept in 1/P tokens and grows by N per microsecond;
//! - a cost above the capacity can never pass; a cost of 0 only looks at the bucket, and still takes a permit;
//! - a cost that is settled in the end is given back or charged, and a level may so go below zero, down to minus one burst;
//! - a bucket that is full is the same as no bucket at all;
//! - a lowered limit clamps at once; a raised one gives an existing bucket nothing at once;
//! - if the clock went back, the level is kept, and a wait includes the way back to the stored time; a stored time
//!   that is further ahead than the bucket takes to fill is reset to now.
//!
//! A quota counts in whole seconds: previous x (1 - elapsed / window) + current. A shape gives turns, one every P/N
//! microseconds; a [`Permit`] says how long its request has to wait for it. A level that is a shadow only counts what it would
//! refuse.
//!
//! The state lives behind [`LimitStore`]; [`Embedded`] keeps it in the process, which is a single router's whole truth.
//! One engine serves a process, however many workers it has, so that a limit never multiplies by them.
//!
//! The crate knows no HTTP and no fleet file: callers bring policies, and turn refusals into answers.

mod clock;
mod demand;
mod embedded;
mod engine;
mod metrics;
mod permit;
mod policy;
pub mod redis;
mod refusal;
mod standing;
mod store;
mod waits;

pub use clock::{Clock, ManualClock};
pub use demand::{Demand, OwnedDemand, RouteKey};
pub use embedded::{DEFAULT_TENANTS, Embedded};
pub use engine::{Admission, DEFAULT_BUDGET, Limits, PendingAdmission};
pub use metrics::{Metrics, StoreMetrics};
pub use permit::{Grant, Held, Outcome, Paid, Permit};
pub use policy::{
    BucketPolicy, LevelPolicy, Levels, MAX_LEVELS, MAX_WINDOW_S, MAX_WINDOWS, PolicyError, RoutePolicy,
    ShapePolicy, WindowPolicy, Windows, max_quota,
};
pub use refusal::{Refusal, Wait};
pub use standing::{Beside, BucketStanding, Standing, WindowStanding};
pub use store::{Answer, Asking, Decision, LimitStore, StoreError};
pub use waits::{WAIT_BOUNDS_US, Waits};
