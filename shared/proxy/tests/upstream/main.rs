//! The upstream client over real sockets, against an upstream that says exactly what a test tells it to.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod answers;
mod beside_hyper;
mod connections;
mod grammar;
mod relay;
mod script;
mod uploads;
