//! The router: maps each tenant to its shard of cells and forwards its requests to one of them.
//!
//! [`Router::start`] takes listeners that the caller has bound, a checked fleet, and settings of this one process.
//! The journey of a request is in `data_path`; what is known about cells in `cells`; what operators ask in `admin`; what they have
//! changed for single tenants in `overrides`.

mod accepted;
mod admin;
mod app;
mod before;
mod blast;
mod cells;
mod data_path;
mod door;
mod drains;
mod edge;
mod gate;
mod limits;
mod limits_metrics;
mod moves;
mod overrides;
mod recent;
mod releasing;
mod reloads;
mod running_table;
mod settings;
mod shared_limits;
mod sharing_metrics;
mod snapshot;
mod start_gate;
mod state_dir;
mod taking;
mod top;
mod waves;

pub use cofferdam_limits::redis::link::{Endpoint, EndpointError};

pub use app::{Listeners, Router, StartError};
pub use before::Before;
pub use blast::{Blast, BlastAnswer, BlastOf, BlastSeen, Group, Known, Load, Neighbour, Shown};
pub use gate::{Judged, Refusals};
pub use recent::{EventKind, RecentAnswer, RecentRow, RecentWaiting, TenantRecent};
pub use settings::Settings;
pub use shared_limits::{SharedStore, SharingError};
pub use snapshot::{ReloadError, placement_spec};
