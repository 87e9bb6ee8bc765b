//! A fleet as a flat list of settings, each with the value in force, and what differs between two fleets. Each section is
//! taken apart without `..`: a new field of the fleet does not compile before it is listed here.

mod cell_rules;
mod changes;
mod fleet;
mod placement;
mod routes;
mod setting;
mod tenants;

pub use changes::SettingChange;
pub use setting::Scope;
