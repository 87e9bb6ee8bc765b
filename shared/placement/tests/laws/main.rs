//! The laws of placement, shown on whole tables: what is golden, how shares fall, what moves, what zones and pins do, and
//! what is refused.

#![expect(clippy::unwrap_used, reason = "what does not parse or build here is a failed test")]

mod counting;
mod fleets;
mod golden;
mod movement;
mod refusals;
mod shares;
mod tenants;
mod zones;
