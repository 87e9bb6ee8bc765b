//! What every process shows of itself: logs, the text of its metrics, what it uses, the listener that probes ask, who appears
//! most, a table of what was used lately, and what is summed up before it is told.
//!
//! The metrics themselves live beside the features that count them; this crate knows none of the product's words.

pub mod aside;
pub mod bounded;
mod exposition;
pub mod logs;
pub mod probes;
pub mod process;
pub mod refusals;
pub mod tally;
pub mod top;

pub use prometheus_client;
