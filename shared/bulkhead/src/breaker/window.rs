//! The outcomes of the last while, in parts that are forgotten one after the other, and whose they were.

use std::time::Duration;

use tokio::time::Instant;

use super::policy::{BreakerPolicy, Caller, Ended};

/// Parts of a window.
const PARTS: usize = 10;

/// The most callers whose outcomes are told apart. Those beyond count together as others: where so many fail, no single one
/// is the reason.
const MAX_CALLERS: usize = 16;

/// For whom a closed breaker has failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFor {
    Nobody,
    /// The only caller that asked.
    One(Caller),
    All,
}

/// Outcomes of the last while, in parts.
pub(super) struct Window {
    all: Outcomes,
    /// Of each caller that has an entry, its part of `all`.
    callers: Vec<(Caller, Outcomes)>,
    /// The part that runs, and when it began.
    at: usize,
    began: Instant,
}

/// Outcomes by part of the window.
#[derive(Default)]
struct Outcomes([Part; PARTS]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    ended: u32,
    failed: u32,
}

/// The outcomes of a whole window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    ended: u64,
    failed: u64,
}

impl Window {
    pub(super) fn begin(now: Instant) -> Self {
        Self { all: Outcomes::default(), callers: Vec::new(), at: 0, began: now }
    }

    /// Counts an outcome; for whom it is too bad now.
    pub(super) fn ended(
        &mut self,
        caller: Option<Caller>,
        how: Ended,
        now: Instant,
        policy: &BreakerPolicy,
    ) -> BadFor {
        let has_failed = how == Ended::Badly;
        if how != Ended::Unknown {
            self.count(caller, has_failed, now, policy.window);
        }
        if has_failed { self.bad_for(policy) } else { BadFor::Nobody }
    }

    fn count(&mut self, caller: Option<Caller>, has_failed: bool, now: Instant, window: Duration) {
        self.go_on(now, window / PARTS as u32);
        let at = self.at;
        self.all.count(at, has_failed);
        if let Some(outcomes) = caller.and_then(|caller| self.entry(caller, has_failed)) {
            outcomes.count(at, has_failed);
        }
    }

    /// For whom the outcomes are as bad as the policy says. What the caller with the most failures did is left out: the rest has
    /// to be bad as well, unless there is none.
    fn bad_for(&self, policy: &BreakerPolicy) -> BadFor {
        let all = self.all.sum();
        if all.failed < u64::from(policy.failures.max(1)) || !all.exceeds(policy.share_thousandths) {
            return BadFor::Nobody;
        }
        let sums = self.callers.iter().map(|(caller, outcomes)| (*caller, outcomes.sum()));
        let Some((worst, own)) = sums.max_by_key(|(_, sum)| (sum.failed, sum.ended)) else {
            return BadFor::All;
        };
        let rest = Sum { ended: all.ended - own.ended, failed: all.failed - own.failed };
        match rest {
            Sum { ended: 0, .. } => BadFor::One(worst),
            Sum { failed: 0, .. } => BadFor::Nobody,
            _ if rest.exceeds(policy.share_thousandths) => BadFor::All,
            _ => BadFor::Nobody,
        }
    }

    #[cfg(test)]
    pub(super) fn n_callers(&self) -> usize {
        self.callers.len()
    }

    /// A caller's entry. Where none is free, a failure takes that of a caller without failures.
    fn entry(&mut self, caller: Caller, has_failed: bool) -> Option<&mut Outcomes> {
        if let Some(at) = self.callers.iter().position(|(other, _)| *other == caller) {
            return Some(&mut self.callers[at].1);
        }
        if self.callers.len() < MAX_CALLERS {
            self.callers.push((caller, Outcomes::default()));
            return self.callers.last_mut().map(|(_, outcomes)| outcomes);
        }
        if !has_failed {
            return None;
        }
        let is_well = |(_, outcomes): &(Caller, Outcomes)| outcomes.sum().failed == 0;
        let at = self.callers.iter().position(is_well)?;
        self.callers[at] = (caller, Outcomes::default());
        Some(&mut self.callers[at].1)
    }

    /// Forgets the parts that are over.
    fn go_on(&mut self, now: Instant, part: Duration) {
        let part = part.max(Duration::from_millis(1));
        let over = now.saturating_duration_since(self.began).as_millis() / part.as_millis();
        if over >= PARTS as u128 {
            *self = Self::begin(now);
            return;
        }
        // Fewer than there are parts.
        for _ in 0..over {
            self.at = (self.at + 1) % PARTS;
            self.all.0[self.at] = Part::default();
            for (_, outcomes) in &mut self.callers {
                outcomes.0[self.at] = Part::default();
            }
            self.began += part;
        }
        if over > 0 {
            self.callers.retain(|(_, outcomes)| outcomes.sum().ended > 0);
        }
    }
}

impl Outcomes {
    fn count(&mut self, at: usize, has_failed: bool) {
        let part = &mut self.0[at];
        part.ended = part.ended.saturating_add(1);
        part.failed = part.failed.saturating_add(u32::from(has_failed));
    }

    fn sum(&self) -> Sum {
        let add = |sum: Sum, part: &Part| Sum {
            ended: sum.ended + u64::from(part.ended),
            failed: sum.failed + u64::from(part.failed),
        };
        self.0.iter().fold(Sum::default(), add)
    }
}

impl Sum {
    fn exceeds(self, thousandths: u32) -> bool {
        self.failed * 1000 >= self.ended * u64::from(thousandths)
    }
}
