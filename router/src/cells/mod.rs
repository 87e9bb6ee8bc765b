//! What the router knows about cells: a directory of them, their health, what they last said of their load, who was there
//! when they were lost, and how much may be tried again.
//!
//! Membership is configuration; health is observation. Nothing here changes which cells a tenant has.

mod avoidance;
mod directory;
mod health;
mod losses;
mod mistrust;
mod probe;
mod restraint_metrics;
mod retry_budget;
mod saturation;
mod shed;
mod told;

pub(crate) use directory::{Cell, Directory, OnCell};
pub(crate) use losses::{Losses, Whereabouts};
pub(crate) use probe::probe_for_ever;
pub(crate) use restraint_metrics::RestraintCollector;
pub(crate) use retry_budget::RetryBudget;
pub(crate) use saturation::Gauge;
pub(crate) use shed::shed_bounds;
