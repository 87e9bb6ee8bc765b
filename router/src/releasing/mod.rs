//! Who moves a release on: the store's clock where routers share one, and this router's own where it is alone. It says how a
//! release stands, stops it and lets it go on; how far it is outlives the process.

mod alone;
mod kept;
mod metrics;
mod steering;

pub(crate) use kept::read;
pub(crate) use metrics::ReleaseCollector;
pub(crate) use steering::{Order, ReleaseError, Releasing};
