//! Compartments of a cell: cell, class and tenant, one inside the other.
//!
//! # The policy
//!
//! A request holds a place at every level or at none. It is admitted at once if all three levels have room:
//!
//! - **tenant**: it holds fewer than max(1, floor(share x ceiling)) places of the class;
//! - **class**: the class holds fewer than its ceiling;
//! - **cell**: a place is free, and the class is below its floor or more places are free than the other classes'
//!   unused floors ask for. Idle room above the floors is lent; an unused floor never is, since a place held by a
//!   long request cannot be called back.
//!
//! Otherwise it waits in the class's bounded queue, or is refused. A refusal names the narrowest level that stops
//! the request: its tenant's own share before its class, its class before the cell; a share that is all of a class,
//! or a ceiling that is all of the cell, is no level of its own. A freed place goes to a class below its floor first, then by the classes' priority, then
//! to the oldest waiter; within a class in order of arrival, passing over waiters whose tenant is at its share.
//!
//! Between two calls no waiter could be admitted: whoever makes room hands it on before letting go of the lock. So
//! a newcomer that finds room overtakes nobody, and one freed place admits at most one waiter.
//!
//! The rules live in a plain state under one lock (`core`), which knows no runtime and reads no clock. Nothing
//! here knows of HTTP, of routes, or of how a request came by its class.

mod advice;
mod compartments;
mod core;
mod erlang;
mod layout;
mod refusal;
mod sizing;
mod snapshot;
mod tenants;
mod waiters;

pub use advice::{Advice, CellUse, ClassAdvice, ClassUse, Warning, advise};
pub use compartments::{Compartments, Place};
pub use erlang::{loss, places_for};
pub use layout::{ClassLayout, Layout, LayoutError, TenantShare};
pub use refusal::Refused;
pub use sizing::{SizeError, size};
pub use snapshot::{ClassSnapshot, Saturations, Snapshot, TOP_TENANTS, TenantPlaces};
pub use tenants::SHARED_COMPARTMENTS;
