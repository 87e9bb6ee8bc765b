//! What every process shows of itself: logs, the text of its metrics, and the listener that probes ask.
//!
//! The metrics themselves live beside the features that count them; this crate knows none of the product's words.

pub mod aside;
pub mod logs;
pub mod probes;

pub use prometheus_client;
