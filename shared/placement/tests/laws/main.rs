//! The laws of placement, shown on whole tables: what is golden, how shares fall, what moves, what a comparison
//! and the gate say of that, what zones and pins do, what all of it takes in memory, which tenants can have cells of their own, what simulated tenants
//! share, and what is refused.

#![expect(clippy::unwrap_used, reason = "what does not parse or build here is a failed test")]

mod comparison;
mod counting;
mod distinct;
mod fleets;
mod gate;
mod golden;
mod memory;
mod movement;
mod proportional;
mod refusals;
mod release;
mod shares;
mod simulation;
mod states;
mod tenants;
mod update;
mod zones;
