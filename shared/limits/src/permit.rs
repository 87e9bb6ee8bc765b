//! What was granted, and that it is given back exactly once, from whatever thread, whatever becomes of the request.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use cofferdam_model::{Level, Limited};

use crate::{MAX_LEVELS, Standing};

/// How a request ended, as far as limits care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ran: permits are given back, and the tokens are spent.
    Success,
    /// Nothing reached a backend: permits and tokens are given back.
    Ignored,
    /// It was cut off on its way: permits are given back, and the tokens are spent.
    Dropped,
}

/// One permit of one key, and the tokens that were taken with it.
pub trait Held: Send + Sync {
    /// Gives the permit back, which then drops its hold, and `returned` tokens with it. Below zero, that is what a backend
    /// has spent beyond what was taken: it is charged, and the level may go below zero, down to minus one burst.
    fn release(&self, returned: i64);
}

/// What was taken of one level beside its permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paid {
    /// Nothing: the level has no tokens.
    #[default]
    Nothing,
    /// Tokens that stand for requests, whatever they cost.
    Count(u32),
    /// Tokens that stand for the cost, which a backend may settle.
    Cost(u32),
}

/// What a store has taken from its levels for one demand. A grant that nobody makes a [`Permit`] of (its waiter went
/// away, or gave up) gives everything back when it is dropped, tokens included. A turn in a shape's line is never given
/// back: others were told to come after it.
pub struct Grant {
    // Invariant: the first `len` are there, and no others.
    holds: [Option<Arc<dyn Held>>; MAX_LEVELS],
    paid: [Paid; MAX_LEVELS],
    len: u8,
    shadowed: Shadowed,
    settled: Option<u32>,
    delay_us: u64,
    standing: Standing,
}

/// What would have been refused, had its level not been a shadow: a bit for each level and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shadowed(u16);

/// The proof of admission: holds a permit of every level that the demand named. It is released once: by
/// [`Permit::release`], or, with [`Outcome::Dropped`], when it is dropped; with [`Outcome::Ignored`] where the request's
/// turn has not come.
#[must_use = "a permit that is dropped at once ends the request before it began"]
pub struct Permit(Grant);

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Success, Self::Ignored, Self::Dropped];
}

impl Paid {
    /// What is given back of it in the end.
    #[inline]
    fn returned(self, outcome: Outcome, settled: Option<u32>) -> i64 {
        match (self, settled) {
            (Self::Nothing, _) => 0,
            (Self::Count(tokens) | Self::Cost(tokens), _) if outcome == Outcome::Ignored => i64::from(tokens),
            (Self::Cost(tokens), Some(settled)) => i64::from(tokens) - i64::from(settled),
            (Self::Count(_) | Self::Cost(_), _) => 0,
        }
    }
}

impl Shadowed {
    const fn bit(level: Level, limited: Limited) -> u16 {
        1 << (level as usize * Limited::ALL.len() + limited as usize)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, level: Level, limited: Limited) -> bool {
        self.0 & Self::bit(level, limited) != 0
    }
}

impl Grant {
    /// A grant that holds nothing yet.
    pub fn new() -> Self {
        Self {
            holds: [const { None }; MAX_LEVELS],
            paid: [Paid::Nothing; MAX_LEVELS],
            len: 0,
            shadowed: Shadowed(0),
            settled: None,
            delay_us: 0,
            standing: Standing::default(),
        }
    }

    /// Adds a level, the next of at most [`MAX_LEVELS`], of which one permit and what was `paid` were taken.
    #[inline]
    pub fn hold(&mut self, level: Arc<dyn Held>, paid: Paid) {
        let at = usize::from(self.len);
        self.holds[at] = Some(level);
        self.paid[at] = paid;
        self.len += 1;
    }

    /// Notes where the tenant level stands, with this grant in it.
    #[inline]
    pub fn stand_at(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Notes that the request's turn comes in `delay`.
    pub fn delay_by(&mut self, delay: Duration) {
        self.delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
    }

    /// Notes that `level` would have refused by `limited`, and is a shadow.
    pub fn pass_shadow(&mut self, level: Level, limited: Limited) {
        self.shadowed.0 |= Shadowed::bit(level, limited);
    }

    #[inline]
    pub(crate) fn shadowed(&self) -> Shadowed {
        self.shadowed
    }

    /// Takes over what another one holds of other levels, and what shadows let pass there.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.shadowed.0 |= other.shadowed.0;
        let len = usize::from(mem::take(&mut other.len));
        for (hold, paid) in other.holds[..len].iter_mut().zip(other.paid) {
            if let Some(level) = hold.take() {
                self.hold(level, paid);
            }
        }
    }

    /// Gives everything back that was taken so far.
    pub(crate) fn clear(&mut self) {
        self.end(Outcome::Ignored);
    }

    fn end(&mut self, outcome: Outcome) {
        // Nothing is left for a second end, such as the drop that follows every release.
        let len = usize::from(mem::take(&mut self.len));
        for (hold, paid) in self.holds[..len].iter_mut().zip(self.paid) {
            if let Some(level) = hold.take() {
                level.release(paid.returned(outcome, self.settled));
            }
        }
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Grant {
    #[inline]
    fn drop(&mut self) {
        self.end(Outcome::Ignored);
    }
}

impl Permit {
    pub(crate) fn new(grant: Grant) -> Self {
        Self(grant)
    }

    /// A permit for nothing: of a request that no limit holds, or until a store has filled its grant.
    pub fn empty() -> Self {
        Self(Grant::new())
    }

    pub(crate) fn grant_mut(&mut self) -> &mut Grant {
        &mut self.0
    }

    /// Where the tenant level stood after this admission.
    pub fn standing(&self) -> &Standing {
        &self.0.standing
    }

    /// How long the request has to wait for its turn on a route that is shaped, with this permit in hand.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.0.delay_us)
    }

    /// The turn has come: there is nothing left to wait for, and whoever goes away from now on is cut off on its way.
    pub fn begin(&mut self) {
        self.0.delay_us = 0;
    }

    /// Takes over what a backend says the request really cost. When the permit is released, the difference to what was
    /// taken is given back or charged, at the tenant's and at the fleet's level; nothing of it where nothing reached a
    /// backend.
    pub fn settle(&mut self, cost: u32) {
        self.0.settled = Some(cost);
    }

    /// Gives everything back that `outcome` gives back.
    #[inline]
    pub fn release(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    /// The same where the permit stays where it is, and holds nothing any more.
    #[inline]
    pub fn end(&mut self, outcome: Outcome) {
        self.0.end(outcome);
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let waits = self.0.delay_us > 0;
        self.0.end(if waits { Outcome::Ignored } else { Outcome::Dropped });
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("levels", &self.len).field("standing", &self.standing).finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_what_was_taken_less_what_it_cost() {
        let back = |paid: Paid, outcome, settled| paid.returned(outcome, settled);
        for outcome in [Outcome::Success, Outcome::Dropped] {
            assert_eq!(back(Paid::Cost(8), outcome, None), 0);
            assert_eq!(back(Paid::Cost(8), outcome, Some(3)), 5);
            assert_eq!(back(Paid::Cost(8), outcome, Some(20)), -12);
            assert_eq!(back(Paid::Count(1), outcome, Some(20)), 0, "requests are counted, not weighed");
            assert_eq!(back(Paid::Nothing, outcome, Some(20)), 0);
        }
        for (paid, all) in [(Paid::Cost(8), 8), (Paid::Count(1), 1), (Paid::Nothing, 0)] {
            assert_eq!(back(paid, Outcome::Ignored, Some(20)), all);
        }
    }

    #[test]
    fn every_level_and_kind_has_a_bit_of_its_own() {
        let mut grant = Grant::new();
        for level in Level::ALL {
            for limited in Limited::ALL {
                assert!(!grant.shadowed().has(level, limited));
                grant.pass_shadow(level, limited);
                assert!(grant.shadowed().has(level, limited));
            }
        }
    }
}
