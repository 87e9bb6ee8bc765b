//! The fleet of `deploy/compose.yaml`, in containers: what its two routers serve and refuse together, and what is left
//! when one of them is killed. Everything is published on loopback, and gone after the test, however that ends.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail where it stands, and say why")]

mod engine;
mod fleet;
mod image;
mod routers;

#[allow(dead_code, reason = "these tests need only a part of what the integration tests stand on")]
#[path = "../support/mod.rs"]
mod support;
