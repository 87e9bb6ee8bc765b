//! What a Rust service by itself uses, as it meets it: a bulkhead, pools, layers, and the examples. Time is paused where
//! no threads of a pool are at work, and these wait for each other instead of for a while.

// What stands outside of test functions unwraps too.
#![allow(clippy::unwrap_used)]

mod bulkhead;
mod composed;
mod examples;
mod layers;
mod pool;

use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
