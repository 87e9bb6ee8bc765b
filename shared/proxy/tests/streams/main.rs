//! The upstream client's HTTP/2 over real sockets, against servers that do exactly what a test tells them to.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod answers;
mod connections;
mod demands;
mod ends;
mod faults;
mod relay;
mod script;
mod uploads;
