//! Limits of single tenants that an operator has changed for a while, over what their plans say. They are in this process, and
//! in the store where there is one, so that every router has them. Nothing here knows how they are asked for.

mod change;
mod fitted;
mod keeping;
mod metrics;
mod record;

pub(crate) use change::{Asked, ChangeError};
pub(crate) use fitted::{Fitted, Overridden};
pub(crate) use keeping::{OverrideError, Overrides};
pub(crate) use metrics::OverridesCollector;
