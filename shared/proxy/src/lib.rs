//! HTTP for an intermediary, written once for router and agent: listening, serving, upstream connections, field
//! rules, bodies that can be replayed or guarded, problem answers, draining.
//!
//! It knows none of the product's words: no tenant, no cell, no limit.

mod authority;
mod caught;
pub mod census;
mod client;
pub mod drain;
pub mod fields;
pub mod forwarding;
mod framing;
pub mod grpc;
pub mod guard;
pub mod handover;
mod http2;
mod interim;
pub mod lines;
pub mod listen;
pub mod look_alikes;
mod names;
pub mod passed;
pub mod payload;
pub mod problem;
pub mod replay;
pub mod serve;
mod service;
mod sniff;
mod streams;
pub mod target;
pub mod trace;
pub mod trailers;
pub mod tunnel;
pub mod upgrade;
pub mod upstream;
pub mod via;
pub mod workers;
