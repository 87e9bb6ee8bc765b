//! The rules of HTTP for an intermediary as a table of data: bytes or frames in; answers or connection state out. A runner
//! plays every row against a router, an agent, and the peers that are installed. Here too: what RFC 9110, RFC 9112 and
//! RFC 9113 demand, each with the rows that show it.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail where it stands, and say why")]

#[allow(dead_code, reason = "the rows need only a part of what the integration tests stand on")]
#[path = "../support/mod.rs"]
mod support;

mod converse;
mod defaults;
mod differences;
mod frame;
mod heard;
mod ours;
mod peers;
mod requirements;
mod row;
mod run;
mod table;
mod upstream;
mod wire;
