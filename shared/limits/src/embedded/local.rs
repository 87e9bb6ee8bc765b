//! Buckets and lines for whoever keeps some beside a store: the embedded store's own, without its table.

use std::time::Duration;

use super::meter::Meter;
use super::shapes::Shapes;
use crate::{BucketPolicy, RouteKey, ShapePolicy};

/// One key's bucket in this process.
#[derive(Default)]
pub(crate) struct Local(Meter);

impl Local {
    /// Takes `cost` tokens, or says how long it takes until they are there.
    pub(crate) fn spend(&mut self, policy: BucketPolicy, cost: u32, now_us: u64) -> Result<(), Duration> {
        let reading = self.0.read(policy, now_us);
        if policy.units(u64::from(cost)) > reading.level {
            return Err(self.0.deny(policy, reading, cost, now_us));
        }
        self.0.spend(policy, reading, cost, now_us);
        Ok(())
    }

    /// Puts `tokens` back that were taken.
    pub(crate) fn refund(&mut self, tokens: u32) {
        // A refund is the same at any time, and under any policy.
        self.0.correct(tokens.into(), None, 0);
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_full(&self, now_us: u64) -> bool {
        self.0.is_full(now_us)
    }
}

/// The lines of shaped routes in this process.
#[derive(Default)]
pub(crate) struct Lines(Shapes);

impl Lines {
    /// Takes the next turn on `route`, in how long that is; or says how long it takes until the line has room.
    pub(crate) fn turn(
        &mut self,
        route: RouteKey,
        policy: ShapePolicy,
        now_us: u64,
    ) -> Result<Duration, Duration> {
        let turn = self.0.look(route, policy, now_us)?;
        self.0.take(route, &turn, now_us);
        Ok(turn.delay)
    }
}
