//! The product's words, each with one meaning: tenants, cells, shards, rates, levels, refusals, saturation, the hop.
//!
//! No I/O, no runtime, no clock: every type here can be built and compared in a unit test.

mod call_end;
mod cell;
mod cell_state;
mod class;
mod failure;
pub mod headers;
mod hop;
mod rate;
mod refusal;
mod saturation;
mod tenant;
mod version;
mod weight;

pub use call_end::{Again, CallEnd, Charge, Guard};
pub use cell::{CellId, CellIndex, NameError, Shard, ZoneId};
pub use cell_state::{CellState, CellStateError};
pub use class::{ClassName, DependencyName, PlanName};
pub use failure::{OnStoreFailure, OnStoreFailureError};
pub use hop::{Hop, HopError, HopFields, Resort};
pub use rate::{Count, Rate, RateError};
pub use refusal::{CellReason, CellRefusal, Level, Limited, RefusalCause};
pub use saturation::{ClassSaturation, Report, ReportError, Saturation};
pub use tenant::{Alphabet, AlphabetError, MAX_TENANT_ID, TenantError, TenantId};
pub use version::{Digest, FleetName, Revision};
pub use weight::{Weight, WeightError};
