//! Calls that try a dependency for the others, once it was left alone.

use std::time::Duration;

use tokio::time::Instant;

use super::policy::{Caller, Ended};

/// The one caller that a closed breaker does not let pass.
pub(super) struct Apart {
    pub(super) caller: Caller,
    pub(super) until: Instant,
    /// Whether one of its calls tries.
    tries: bool,
}

/// Calls that try a dependency for everybody.
#[derive(Default)]
pub(super) struct Trials {
    /// Whose calls are on their way: of each caller no more than have to succeed, and twice as many in all, so that one that
    /// stalls its own does not keep the others from trying.
    on_their_way: Vec<Option<Caller>>,
    succeeded: u32,
    /// Whose trial failed, and until when it may not try again.
    failed: Option<(Caller, Instant)>,
}

impl Apart {
    pub(super) fn new(caller: Caller, until: Instant) -> Self {
        Self { caller, until, tries: false }
    }

    /// One of its calls at a time may try once the time is over; else how long that is.
    pub(super) fn enter(&mut self, now: Instant) -> Result<(), Duration> {
        let left = self.until.saturating_duration_since(now);
        if self.tries || !left.is_zero() {
            return Err(left);
        }
        self.tries = true;
        Ok(())
    }

    /// What is left of it once its trial has ended.
    pub(super) fn ended(self, how: Ended, until: Instant) -> Option<Self> {
        match how {
            Ended::Well => None,
            Ended::Badly => Some(Self { until, tries: false, ..self }),
            Ended::Unknown => Some(Self { tries: false, ..self }),
        }
    }
}

impl Trials {
    /// Lets a call try; else how long until it may.
    pub(super) fn enter(
        &mut self,
        caller: Option<Caller>,
        probes: u32,
        now: Instant,
    ) -> Result<(), Duration> {
        if let Some((failed, until)) = self.failed
            && caller == Some(failed)
            && now < until
        {
            return Err(until - now);
        }
        // No more than have to succeed: the first failure would have spared the others.
        let most = probes.max(1).saturating_sub(self.succeeded) as usize;
        let of_caller = self.on_their_way.iter().filter(|other| **other == caller).count();
        if of_caller >= most || self.on_their_way.len() >= 2 * most {
            return Err(Duration::ZERO);
        }
        self.on_their_way.push(caller);
        Ok(())
    }

    /// Whether the breaker opens again: a trial without a caller failed, or those of two callers did.
    pub(super) fn ended(&mut self, caller: Option<Caller>, how: Ended, until: Instant) -> bool {
        if let Some(at) = self.on_their_way.iter().position(|other| *other == caller) {
            self.on_their_way.swap_remove(at);
        }
        match how {
            Ended::Unknown => false,
            Ended::Well => {
                self.succeeded += 1;
                false
            }
            Ended::Badly => {
                let before = std::mem::replace(&mut self.failed, caller.map(|caller| (caller, until)));
                caller.is_none() || before.is_some_and(|(before, _)| Some(before) != caller)
            }
        }
    }

    pub(super) fn have_succeeded(&self, probes: u32) -> bool {
        self.succeeded >= probes.max(1)
    }
}
