//! The whole journey over real sockets: routers and agents in this process, and processes of the command where one has
//! to die, to be told something, or to be called as its users call it. A test's name states the behaviour.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail where it stands, and say why")]

#[path = "../support/mod.rs"]
mod support;

mod accepted;
mod advise;
mod alerts;
mod asking;
mod blast;
mod bodies;
mod cell_health;
mod choice;
mod command;
mod connections;
mod drain;
mod drills;
mod events;
mod exact_limiter;
mod explain;
mod explain_overrides;
mod failover;
mod faults;
mod forwarded;
mod framing;
mod grpc;
mod handover;
mod headers;
mod http2;
mod incidents;
mod isolation;
mod limits;
mod limits_change;
mod limits_overridden;
mod limits_published;
mod limits_refusal_fields;
mod limits_routes;
mod limits_settled;
mod limits_shown;
mod logging;
mod logins;
mod malformed;
mod many_slots;
mod moved;
mod names;
mod observability;
mod one_caller;
mod overrides_on_disk;
mod pairs;
mod placed;
mod placement;
mod plan;
mod processes;
mod refusal_causes;
mod regression;
mod relayed;
mod release;
mod reload;
mod restart;
mod restraint;
mod retry;
mod routing;
mod runtime;
mod settings;
mod shared_limits;
mod shared_limits_start;
mod simulate;
mod states;
mod streaming;
mod top;
mod transfers;
mod tunnels;
mod waits;
mod when_full;
