//! The longest time that is reckoned with: whatever its users give, what is added to a clock is no more.

use std::time::Duration;

/// A hundred years.
pub(crate) const LIFETIME: Duration = Duration::from_secs(100 * 365 * 86_400);
