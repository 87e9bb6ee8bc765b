//! An agent in this process, over real sockets: a backend behind it, clients before it.

#![expect(clippy::unwrap_used, reason = "a test says what went wrong by where it stops")]

mod compartments;
mod drain;
mod faults;
mod floors;
mod hop;
mod release;
mod reload;
mod support;
mod unix;
