//! The compartments as their users meet them: the published right values, waiting, and races. Time is paused.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod change;
mod fair;
mod races;
mod replay;
mod right_values;
mod rules;
mod support;
mod waiting;
