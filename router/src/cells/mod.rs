//! What the router knows about cells: a directory of them, their health, and what they last said of their load.
//!
//! Membership is configuration; health is observation. Nothing here changes which cells a tenant has.

mod avoidance;
mod directory;
mod health;
mod mistrust;
mod probe;
mod saturation;
mod shed;

pub(crate) use directory::{Cell, Directory, OnCell};
pub(crate) use probe::probe_for_ever;
pub(crate) use saturation::Gauge;
pub(crate) use shed::shed_bounds;
