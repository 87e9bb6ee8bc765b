//! What the router knows about cells: a directory of them, their health, and what they last said of their load.
//!
//! Membership is configuration; health is observation. Nothing here changes which cells a tenant has.

mod directory;
mod health;
mod probe;
mod saturation;

pub(crate) use directory::{Cell, Directory, OnCell};
pub(crate) use probe::probe_for_ever;
