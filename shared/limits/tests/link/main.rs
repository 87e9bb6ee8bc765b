//! The connections to Redis, on real servers: one alone, behind Sentinel, as a cluster; with TLS, passwords and access lists;
//! and with everything that happens to connections.

#![allow(clippy::unwrap_used, reason = "a behaviour that cannot go on has failed")]

#[path = "../../../../tests/support/redis/mod.rs"]
mod redis_server;
#[path = "../../../../tests/support/redis/tls.rs"]
mod redis_tls;
#[path = "../../../../tests/support/relay.rs"]
#[allow(dead_code, reason = "each binary of tests that includes it has its own part of it")]
mod relay;

mod access;
mod cluster;
mod endpoint;
mod heard;
mod network;
mod once;
mod overrides;
mod placement;
mod release;
mod sentinel;
mod single;
mod spend;
mod tls;
mod valkey;

/// Any free port of this machine's loopback.
const ANY: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
