//! What every process shows of itself: logs, the text of its metrics, the listener that probes ask, and who appears most.
//!
//! The metrics themselves live beside the features that count them; this crate knows none of the product's words.

pub mod aside;
pub mod logs;
pub mod probes;
pub mod top;

pub use prometheus_client;
