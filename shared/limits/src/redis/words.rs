//! The words that a process's workers share: what the store has granted, and how much of it is in use, in one atomic number
//! for each limit. They know no store, no policy and no clock.
//!
//! A word has two halves of 32 bits, so that both change in one step:
//!
//! - permits, `cap | used`: a release is one subtraction; a grant or an expiry changes the cap alone, and what is in use
//!   may exceed it and drains;
//! - tokens, `generation | count`: an expiry swaps in the next generation, and what is given back counts only in the
//!   generation that it was taken from. Without that, a block that expired would be spent a second time.

use std::sync::atomic::{AtomicU64, Ordering};

/// The atomic number under a word; a model checker brings its own.
pub(super) trait Atomic: Send + Sync {
    /// A number that stands at 0.
    fn zero() -> Self;
    /// The number as it is.
    fn load(&self) -> u64;
    /// Replaces `old` by `new`, or says what is there instead.
    fn replace(&self, old: u64, new: u64) -> Result<(), u64>;
    /// Takes 1 off, whatever else changes.
    fn decrement(&self);
}

/// Permits: at most `cap` in use, of which `used` are.
#[derive(Debug)]
pub(super) struct PermitWord<A = AtomicU64>(A);

/// Tokens of one generation that wait to be spent.
#[derive(Debug)]
pub(super) struct TokenWord<A = AtomicU64>(A);

/// A word of permits, read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permits {
    pub(super) cap: u32,
    pub(super) used: u32,
}

/// Which block tokens came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u32);

impl Atomic for AtomicU64 {
    fn zero() -> Self {
        Self::new(0)
    }

    #[inline]
    fn load(&self) -> u64 {
        Self::load(self, Ordering::Acquire)
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    #[inline]
    fn decrement(&self) {
        self.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Changes a word until nobody was in between; `None` from `change` leaves it as it is.
#[inline]
fn update<A: Atomic, R>(word: &A, change: impl Fn(u32, u32) -> Option<(u32, u32, R)>) -> Option<R> {
    let mut seen = word.load();
    loop {
        let (high, low) = halves(seen);
        let (high, low, result) = change(high, low)?;
        match word.replace(seen, whole(high, low)) {
            Ok(()) => return Some(result),
            Err(now) => seen = now,
        }
    }
}

fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn whole(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl<A: Atomic> PermitWord<A> {
    /// No permits, and none in use.
    pub(super) fn new() -> Self {
        Self(A::zero())
    }

    /// Takes a permit where fewer than the cap, and fewer than `limit`, are in use.
    #[inline]
    pub(super) fn take(&self, limit: u32) -> bool {
        update(&self.0, |cap, used| (used < cap.min(limit)).then(|| (cap, used + 1, ()))).is_some()
    }

    /// Takes a permit where fewer than `bound` are in use, whatever the cap is.
    pub(super) fn take_below(&self, bound: u32) -> bool {
        update(&self.0, |cap, used| (used < bound).then(|| (cap, used + 1, ()))).is_some()
    }

    /// Gives back a permit that was taken.
    #[inline]
    pub(super) fn release(&self) {
        // The lower half is at least 1 here, so nothing is borrowed from the cap.
        self.0.decrement();
    }

    /// Sets how many may be in use from now on.
    pub(super) fn set_cap(&self, cap: u32) {
        update(&self.0, |_, used| Some((cap, used, ())));
    }

    /// Lowers the cap to `target` or to what is in use, whichever is more, and never raises it. The result is what the
    /// process is bound to from now on: what is in use, where that exceeds the cap.
    pub(super) fn bind(&self, target: u32) -> u32 {
        let bound = update(&self.0, |cap, used| {
            let cap = cap.min(target.max(used));
            Some((cap, used, cap.max(used)))
        });
        bound.unwrap_or_default()
    }

    /// What the word says.
    #[inline]
    pub(super) fn read(&self) -> Permits {
        let (cap, used) = halves(self.0.load());
        Permits { cap, used }
    }
}

impl<A: Atomic> TokenWord<A> {
    /// No tokens.
    pub(super) fn new() -> Self {
        Self(A::zero())
    }

    /// Takes `n` tokens or none; the result is where they came from, and how many are left.
    #[inline]
    pub(super) fn take(&self, n: u32) -> Option<(Generation, u32)> {
        update(&self.0, |generation, count| {
            let left = count.checked_sub(n)?;
            Some((generation, left, (Generation(generation), left)))
        })
    }

    /// Takes as many tokens as there are, and at most `n`; the result is where they came from, and how many.
    pub(super) fn take_up_to(&self, n: u32) -> (Generation, u32) {
        let taken = update(&self.0, |generation, count| {
            let taken = count.min(n);
            Some((generation, count - taken, (Generation(generation), taken)))
        });
        taken.unwrap_or((Generation(0), 0))
    }

    /// Gives back tokens that were taken from `from`; the result is whether that generation still counts.
    pub(super) fn give_back(&self, from: Generation, n: u32) -> bool {
        let given = update(&self.0, |generation, count| {
            (generation == from.0).then(|| (generation, count.saturating_add(n), ()))
        });
        given.is_some()
    }

    /// Adds what the store granted.
    pub(super) fn grant(&self, n: u32) {
        update(&self.0, |generation, count| Some((generation, count.saturating_add(n), ())));
    }

    /// Ends this generation; the result is how many of its tokens were not spent.
    pub(super) fn expire(&self) -> u32 {
        let lost = update(&self.0, |generation, count| Some((generation.wrapping_add(1), 0, count)));
        lost.unwrap_or_default()
    }

    /// How many tokens are there.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        halves(self.0.load()).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_may_exceed_the_cap_and_drains() {
        let word = PermitWord::<AtomicU64>::new();
        assert!(!word.take(10));
        word.set_cap(3);
        assert!(word.take(10) && word.take(10) && !word.take(2) && word.take(10) && !word.take(10));
        assert_eq!(word.bind(1), 3, "three are in use");
        word.set_cap(1);
        word.release();
        assert_eq!(word.bind(1), 2, "and now two");
        assert_eq!(word.read(), Permits { cap: 1, used: 2 });
        assert!(word.take_below(3) && !word.take_below(3));
    }

    #[test]
    fn what_is_given_back_counts_in_its_own_generation_alone() {
        let word = TokenWord::<AtomicU64>::new();
        word.grant(5);
        let (first, left) = word.take(3).unwrap();
        assert_eq!(left, 2);
        assert!(word.give_back(first, 1));
        assert_eq!(word.expire(), 3);
        assert!(!word.give_back(first, 2));
        assert_eq!((word.count(), word.take(1)), (0, None));
        word.grant(2);
        assert_eq!((word.take_up_to(5).1, word.count()), (2, 0));
    }
}
