//! What was granted, and that it is given back exactly once, from whatever thread, whatever becomes of the request.

use std::sync::Arc;
use std::{fmt, mem};

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
    /// Gives the permit back, which then drops its hold; and the `tokens` too where `outcome` is [`Outcome::Ignored`].
    fn release(&self, tokens: u32, outcome: Outcome);
}

/// What a store has taken from its levels for one demand. A grant that nobody makes a [`Permit`] of (its waiter went
/// away, or gave up) gives everything back when it is dropped, tokens included.
pub struct Grant {
    // Invariant: the first `len` are there, and no others.
    holds: [Option<Arc<dyn Held>>; MAX_LEVELS],
    tokens: [u32; MAX_LEVELS],
    len: usize,
    standing: Standing,
}

/// The proof of admission: holds a permit of every level that the demand named. It is released once: by
/// [`Permit::release`], or, with [`Outcome::Dropped`], when it is dropped.
#[must_use = "a permit that is dropped at once ends the request before it began"]
pub struct Permit(Grant);

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Success, Self::Ignored, Self::Dropped];
}

impl Grant {
    /// A grant that holds nothing yet.
    pub fn new() -> Self {
        Self {
            holds: [const { None }; MAX_LEVELS],
            tokens: [0; MAX_LEVELS],
            len: 0,
            standing: Standing::default(),
        }
    }

    /// Adds a level, the next of at most [`MAX_LEVELS`], of which one permit and `tokens` were taken.
    #[inline]
    pub fn hold(&mut self, level: Arc<dyn Held>, tokens: u32) {
        self.holds[self.len] = Some(level);
        self.tokens[self.len] = tokens;
        self.len += 1;
    }

    /// Notes where the tenant level stands, with this grant in it.
    #[inline]
    pub fn stand_at(&mut self, standing: Standing) {
        self.standing = standing;
    }

    fn end(&mut self, outcome: Outcome) {
        // Nothing is left for a second end, such as the drop that follows every release.
        let len = mem::take(&mut self.len);
        for (hold, &tokens) in self.holds[..len].iter_mut().zip(&self.tokens) {
            if let Some(level) = hold.take() {
                level.release(tokens, outcome);
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

    /// A permit for nothing, until a store has filled its grant.
    pub(crate) fn empty() -> Self {
        Self(Grant::new())
    }

    pub(crate) fn grant_mut(&mut self) -> &mut Grant {
        &mut self.0
    }

    /// Where the tenant level stood after this admission.
    pub fn standing(&self) -> &Standing {
        &self.0.standing
    }

    /// Gives everything back that `outcome` gives back.
    #[inline]
    pub fn release(mut self, outcome: Outcome) {
        self.0.end(outcome);
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.0.end(Outcome::Dropped);
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
