//! What every operation of the model is given, and what it comes to.

use std::time::Duration;

use cofferdam_limits::redis::{Reply, Room};

/// The moment of a call, as an operation sees it.
pub(super) struct Moment<'a> {
    pub(super) now: i128,
    pub(super) start: i128,
    pub(super) ttl: i128,
    pub(super) session: &'a str,
    /// Whether what is granted is really given.
    pub(super) gives: bool,
    pub(super) forgets: bool,
}

/// What an operation comes to.
pub(super) struct Outcome<S> {
    pub(super) reply: Reply,
    pub(super) has_min: bool,
    pub(super) stored: Stored<S>,
}

/// What becomes of the key.
pub(super) enum Stored<S> {
    Unchanged,
    /// Changed, and as long to live as before.
    Touched(S),
    /// Written, to end after so long.
    Until(S, i128),
    Gone,
}

impl<S> Outcome<S> {
    pub(super) fn wrap<T>(self, state: impl Fn(S) -> T) -> Outcome<T> {
        let stored = match self.stored {
            Stored::Unchanged => Stored::Unchanged,
            Stored::Touched(stored) => Stored::Touched(state(stored)),
            Stored::Until(stored, us) => Stored::Until(state(stored), us),
            Stored::Gone => Stored::Gone,
        };
        Outcome { reply: self.reply, has_min: self.has_min, stored }
    }
}

impl Moment<'_> {
    /// When something that was written to end at `ends` does so: not later than two TTLs from now, since what is further ahead
    /// was written before the clock went back.
    pub(super) fn ends(&self, ends: i128) -> i128 {
        ends.min(self.now + 2 * self.ttl)
    }
}

/// The quotient rounded up.
pub(super) fn ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

pub(super) fn room(wait: Option<i128>) -> Room {
    match wait {
        None => Room::Never,
        Some(0) => Room::Now,
        Some(us) => Room::In(Duration::from_micros(us.try_into().unwrap())),
    }
}
