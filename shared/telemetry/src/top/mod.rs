//! Who appears most, in memory that does not grow with how many there are: counted where it happens, each counter for
//! itself, and put together when somebody asks. What is counted, and whose it is, is the caller's affair.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use cofferdam_telemetry::top::{Ranking, Recent};
//!
//! let began = Instant::now();
//! let mut calls = Recent::new(256, Duration::from_secs(60), began);
//! for caller in ["ann", "bob", "ann"] {
//!     calls.add(&caller, 1, began);
//! }
//! let ranking = Ranking::of([&calls], began);
//! assert_eq!((ranking.entries[0].key, ranking.entries[0].count), ("ann", 2));
//! ```

mod ranking;
mod recent;
mod sketch;

pub use ranking::{Entry, Ranking};
pub use recent::Recent;
pub(crate) use sketch::Sketch;
