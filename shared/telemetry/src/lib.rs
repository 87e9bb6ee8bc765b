//! What every process shows of itself: logs, the text of its metrics, the listener that probes ask, who appears most, and a table of
//! what was used lately.
//!
//! The metrics themselves live beside the features that count them; this crate knows none of the product's words.

pub mod aside;
pub mod bounded;
pub mod logs;
pub mod probes;
pub mod top;

pub use prometheus_client;
