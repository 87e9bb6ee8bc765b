//! Routers and agents as users run them, before backends and behind clients that are not ours: what HTTP says is one
//! thing, what others make of it another. Every part is a process; what a client program finds wrong, it says itself.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail where it stands, and say why")]

#[allow(dead_code, reason = "these tests need only a part of what the integration tests stand on")]
#[path = "../support/mod.rs"]
mod support;

mod backends;
mod curl;
mod front;
mod grpc;
mod h2load;
mod http2;
mod httpx;
mod program;
mod slow;
mod websockets;
