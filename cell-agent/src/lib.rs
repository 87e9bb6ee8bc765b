//! The cell agent: a reverse proxy in front of one cell's backend that enforces the cell's bulkheads and says on every
//! answer how full they are.
//!
//! [`Agent::start`] takes a checked fleet, the settings of this one process, and listeners that the caller has bound.
//! The journey of a request is in `journey`: classify -> compartment -> backend -> release at the end of the body.
//!
//! It knows one cell. Placement, fleet-wide limits and the other cells are the router's.

mod admin;
mod answer;
mod app;
mod backend;
mod breakers;
mod busiest;
#[cfg(test)]
mod captured;
mod classify;
mod demand;
mod drills;
mod edge;
mod following;
mod forward;
mod gate;
mod health;
mod journey;
mod last_good;
mod leaving;
mod metrics;
mod rates;
mod rejection;
mod report;
mod request;
mod routers;
mod rules;
mod settings;
mod stand_in;

pub use app::{Agent, Listeners, Running, StartError};
pub use backend::{Backend, BackendError};
pub use rules::ReloadError;
pub use settings::{BackendProtocol, Settings};
