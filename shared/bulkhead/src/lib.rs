//! Compartments of a cell: cell, class and tenant, one inside the other; and what a service by itself needs to keep one
//! dependency's trouble from the others.
//!
//! # By itself
//!
//! | | |
//! |---|---|
//! | [`Bulkhead`] | caps how many calls of one kind are in flight; [`Bulkheads`] are several by name |
//! | [`Pool`] | reserves threads for calls that block; [`RuntimePool`] does for futures |
//! | [`Breaker`] | leaves a dependency alone that fails, and lets a few try it again |
//! | [`BulkheadLayer`], [`BreakerLayer`], [`DeadlineLayer`] | around any service of tower's |
//! | [`AdaptiveLimit`] | a limit that follows the measured latency |
//! | [`size`], [`loss`], [`places_for`] | how many places are needed, and how often so many refuse |
//! | [`Compartments`] | classes with floors and ceilings, tenants with shares, and fair queues |
//!
//! # The policy of compartments
//!
//! A request holds a place at every level or at none. It is admitted at once if all levels have room:
//!
//! - **tenant**: it holds fewer than max(1, floor(share x ceiling)) places of the class;
//! - **caps**: fewer requests than the cap are held or wait under the route's own cap and its dependency's;
//! - **class**: the class holds fewer than its ceiling;
//! - **cell**: a place is free, and the class is below its floor or more places are free than the other classes'
//!   unused floors ask for. Idle room above the floors is lent; an unused floor never is, since a place held by a
//!   long request cannot be called back.
//!
//! Otherwise it waits in the class's bounded queue, or is refused. A refusal names the narrowest level that stops
//! the request: its tenant's own share before a cap or its class, its class before the cell; a share that is all of a
//! class, or a ceiling or a cap that is all of the cell, is no level of its own. Caps have no queue: who comes to a full
//! one is refused at once, and who waits for a class counts in its caps already, so that nobody whose turn comes is held
//! up by a cap, and a dependency that hangs fills nobody's queue.
//!
//! A freed place goes to a class below its floor first, then by the classes' priority, then to the class of the oldest
//! in turn; within a class round the tenants, by weight (`rounds`). A tenant pays for the place-time of what it is given
//! out of the queue: for what it is expected to use, and for the difference when that is known. A tenant at its share
//! does not take part until it gives a place back, so it is passed over without being looked at.
//!
//! A wait is at most `max_wait` and a quarter of what is left until the deadline; who would wait longer is refused on
//! entry. A queue that stands, since for a whole `max_wait` nobody was given a place within a twentieth of it, only makes
//! everybody late: newcomers then wait for that twentieth at most (`estimate`).
//!
//! Between two calls no waiter could be admitted: whoever makes room hands it on before letting go of the lock. So
//! a newcomer that finds room overtakes nobody. A changed layout holds at once: nobody loses a place or its place in
//! line, and what is above a limit drains.
//!
//! The rules live in a plain state under one lock (`core`), which knows no runtime and reads no clock. Nothing
//! here knows of routes, or of how a request came by its class.

mod adaptive;
mod advice;
mod breaker;
mod bulkhead;
mod bulkheads;
mod caps;
#[cfg(test)]
mod checked;
mod claim;
mod compartments;
mod core;
mod denied;
mod erlang;
mod estimate;
mod indices;
mod layers;
mod layout;
mod lifetime;
mod list;
mod lock;
mod meter;
mod permits;
mod place;
mod pool;
mod pool_runtime;
mod refusal;
mod rounds;
mod sizing;
mod snapshot;
mod tenants;
mod waiters;
mod waiting;

pub use adaptive::{AdaptiveLimit, AdaptivePolicy, AdaptiveState};
pub use advice::{Advice, CellUse, ClassAdvice, ClassUse, MIN_SAMPLES, Warning, advise};
pub use breaker::{Breaker, BreakerCounts, BreakerPolicy, BreakerState, Caller, Open, Pass};
pub use bulkhead::{Bulkhead, BulkheadPlace, BulkheadSnapshot};
pub use bulkheads::{Bulkheads, NameTaken};
pub use caps::{CapKind, CapLayout, CapName, CapsOf};
pub use claim::Claim;
pub use compartments::Compartments;
pub use denied::Denied;
pub use erlang::{loss, places_for};
pub use indices::Indices;
pub use layers::{
    BoxError, BoxFuture, BreakerLayer, BreakerService, BulkheadLayer, BulkheadService, Deadline,
    DeadlineBody, DeadlineLayer, DeadlinePassed, DeadlineService, HeldBody, Hold, ToAnswer, ToBodyEnd,
    Verdict, judge_http, judge_status,
};
pub use layout::{ClassLayout, Layout, LayoutError, TenantShare};
pub use meter::{ClassDemand, ClassMeter};
pub use place::Place;
pub use pool::{Pool, PoolError, PoolSnapshot, Running};
pub use pool_runtime::RuntimePool;
pub use refusal::Refused;
pub use sizing::{SizeError, size};
pub use snapshot::{CapSnapshot, ClassSnapshot, Saturations, Snapshot, TOP_TENANTS, TenantPlaces};
pub use tenants::SHARED_COMPARTMENTS;
