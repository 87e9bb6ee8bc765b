//! How much of everything a policy may have, so that memory is bounded and every count is exact.

use cofferdam_model::Level;

/// The most levels that one request passes. A permit has room for so many, inline.
pub const MAX_LEVELS: usize = Level::ALL.len();

/// The most windows that one level has.
pub const MAX_WINDOWS: usize = 2;

/// The longest window: a year and a day, in seconds.
pub const MAX_WINDOW_S: u32 = 366 * 86_400;

/// The largest whole number that a script's numbers, which are doubles, hold exactly.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// The largest quota of a window: a window may hold twice its quota, weighted by seconds.
pub const fn max_quota(window_s: u32) -> u64 {
    let weight = if window_s == 0 { 1 } else { window_s as u64 };
    MAX_EXACT / 2 / weight
}
