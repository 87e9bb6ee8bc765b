//! What a Rust service by itself uses, as it meets it: a bulkhead, pools, layers, and the examples. Time is paused where
//! no threads of a pool are at work, and these wait for each other instead of for a while.

// What stands outside of test functions unwraps too.
#![allow(clippy::unwrap_used)]

mod bulkhead;
mod composed;
mod examples;
mod layers;
mod pool;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
