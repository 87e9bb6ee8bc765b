//! What a meter shows at one moment. It knows no meter.

/// A meter at one moment, under one policy.
#[derive(Clone, Copy, Default)]
pub(super) struct Reading {
    /// What is left, in 1/P tokens of the policy; below zero where costs were settled.
    pub(super) level: i64,
    /// How far the meter's stored time lies ahead of the clock, which went back; nothing flows in until then.
    pub(super) ahead_us: u64,
}
