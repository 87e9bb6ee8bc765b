//! A circuit breaker: where a dependency fails, it is left alone for a while, and then tried by a few. It knows no
//! dependency and no request: whoever passes says how it ended.
//!
//! A failure is what the dependency did: its errors, and answers that never came. What we refused ourselves, what the caller
//! took back or got wrong, and what waited too long for a place says nothing of it, and is no failure.
//!
//! A breaker that many callers share ([`Breaker::pass_for`]) is never opened for all of them by one alone. What the caller with
//! the most failures did is left out, and the others' outcomes within the window have to be bad as well: at least one failure,
//! and the policy's share of theirs. If no other caller had an outcome within the window, nobody else asks. The breaker then opens
//! for that caller alone, and lets the others pass. A trial that fails keeps the breaker open only for its own caller, until a
//! second caller's trial fails as well.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::lifetime::LIFETIME;

mod policy;
mod trials;
mod window;

use self::policy::Ended;
pub use self::policy::{BreakerPolicy, Caller};
use self::trials::{Apart, Trials};
use self::window::{BadFor, Window};

/// A breaker. Clones are the same one.
///
/// ```
/// use cofferdam_bulkhead::{Breaker, BreakerPolicy, BreakerState};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let breaker = Breaker::new(BreakerPolicy::default());
/// for _ in 0..5 {
///     breaker.pass().unwrap().failed(); // as the call did
/// }
/// let open = breaker.pass().unwrap_err();
/// assert_eq!(open.to_string(), "breaker is open for 30s more");
/// tokio::time::sleep(open.0).await;
/// breaker.pass().unwrap().succeeded();
/// assert_eq!(breaker.counts().state, BreakerState::Closed);
/// # }
/// ```
#[derive(Clone)]
pub struct Breaker(Arc<Shared>);

/// Leave to call the dependency. Say how it ended; dropped without a word, it says nothing of the dependency.
#[must_use = "a pass that is dropped at once lets nobody learn of the outcome"]
pub struct Pass {
    /// `None` once it was said how it ended.
    shared: Option<Arc<Shared>>,
    /// The state it was given in: what comes back later than that state counts for nothing.
    generation: u64,
    caller: Option<Caller>,
    is_trial: bool,
}

/// The dependency is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("breaker is open for {0:?} more")]
pub struct Open(
    /// How long until somebody may try again; zero where those who try are on their way.
    pub Duration,
);

/// What a breaker does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Everybody passes.
    Closed,
    /// A few try.
    HalfOpen,
    /// Nobody passes.
    Open,
}

/// What a breaker has counted since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerCounts {
    /// What it does now, for whoever it is open.
    pub state: BreakerState,
    /// Whether it is open for one caller alone: no other asked, and all others pass.
    pub for_one: bool,
    /// How often it opened.
    pub opened: u64,
    /// Who was not let pass.
    pub refused: u64,
}

struct Shared {
    policy: BreakerPolicy,
    state: Mutex<State>,
}

struct State {
    generation: u64,
    now: Now,
    opened: u64,
    refused: u64,
}

enum Now {
    /// Open for one caller at most.
    Closed {
        window: Window,
        apart: Option<Apart>,
    },
    Open {
        until: Instant,
    },
    HalfOpen(Trials),
}

impl Breaker {
    /// A breaker that is closed.
    pub fn new(policy: BreakerPolicy) -> Self {
        let now = Now::closed(Instant::now());
        let state = Mutex::new(State { generation: 0, now, opened: 0, refused: 0 });
        Self(Arc::new(Shared { policy, state }))
    }

    /// Leave to call the dependency, or how long it is left alone. It never waits.
    pub fn pass(&self) -> Result<Pass, Open> {
        self.enter(None)
    }

    /// The same for one of many callers. None of them opens the breaker for the others by itself.
    pub fn pass_for(&self, caller: Caller) -> Result<Pass, Open> {
        self.enter(Some(caller))
    }

    fn enter(&self, caller: Option<Caller>) -> Result<Pass, Open> {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if let Now::Open { until } = state.now
            && now >= until
        {
            state.turn(Now::HalfOpen(Trials::default()));
        }
        let admitted = match &mut state.now {
            Now::Closed { apart, .. } => match apart {
                Some(apart) if Some(apart.caller) == caller => apart.enter(now).map(|()| true),
                _ => Ok(false),
            },
            Now::Open { until } => Err(*until - now),
            Now::HalfOpen(trials) => trials.enter(caller, self.0.policy.probes, now).map(|()| true),
        };
        match admitted {
            Ok(is_trial) => {
                let (shared, generation) = (Some(Arc::clone(&self.0)), state.generation);
                Ok(Pass { shared, generation, caller, is_trial })
            }
            Err(left) => {
                state.refused += 1;
                Err(Open(left))
            }
        }
    }

    /// What it does now, and what it has counted.
    pub fn counts(&self) -> BreakerCounts {
        let (state, at) = (self.0.state.lock(), Instant::now());
        let of = |until: Instant| if at < until { BreakerState::Open } else { BreakerState::HalfOpen };
        let (now, for_one) = match &state.now {
            Now::Closed { apart: None, .. } => (BreakerState::Closed, false),
            Now::Closed { apart: Some(apart), .. } => (of(apart.until), true),
            Now::Open { until } => (of(*until), false),
            Now::HalfOpen(_) => (BreakerState::HalfOpen, false),
        };
        BreakerCounts { state: now, for_one, opened: state.opened, refused: state.refused }
    }
}

impl Pass {
    /// Whether it was given to try, while others are refused until it is said how that went.
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// The dependency did its work; `true` where the breaker has closed by it.
    pub fn succeeded(mut self) -> bool {
        self.end(Ended::Well)
    }

    /// The dependency failed; `true` where the breaker has opened by it.
    pub fn failed(mut self) -> bool {
        self.end(Ended::Badly)
    }

    fn end(&mut self, how: Ended) -> bool {
        self.shared.take().is_some_and(|shared| shared.ended(self, how))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.end(Ended::Unknown);
    }
}

impl Shared {
    /// The result is whether the breaker opened or closed by it.
    fn ended(&self, pass: &Pass, how: Ended) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.generation != pass.generation {
            return false;
        }
        let (policy, until) = (&self.policy, now + self.policy.open_for.min(LIFETIME));
        let opens = match &mut state.now {
            Now::Closed { window, apart } => {
                if let Some(tries) = apart.take_if(|apart| pass.is_trial && pass.caller == Some(apart.caller))
                {
                    *apart = tries.ended(how, until);
                    return apart.is_none();
                }
                match (window.ended(pass.caller, how, now, policy), &apart) {
                    (BadFor::Nobody, _) => false,
                    // What the caller had under way fails as well.
                    (BadFor::One(caller), Some(one)) if one.caller == caller => false,
                    (BadFor::One(caller), None) => {
                        *apart = Some(Apart::new(caller, until));
                        state.opened += 1;
                        return true;
                    }
                    // By now there are two.
                    (BadFor::One(_), Some(_)) | (BadFor::All, _) => true,
                }
            }
            Now::HalfOpen(trials) => {
                let opens = trials.ended(pass.caller, how, until);
                if trials.have_succeeded(policy.probes) {
                    state.turn(Now::closed(now));
                }
                opens
            }
            // A pass of the state before is of another generation.
            Now::Open { .. } => false,
        };
        if opens {
            state.open(until);
        }
        state.generation != pass.generation
    }
}

impl Now {
    fn closed(now: Instant) -> Self {
        Self::Closed { window: Window::begin(now), apart: None }
    }
}

impl State {
    fn open(&mut self, until: Instant) {
        self.opened += 1;
        self.turn(Now::Open { until });
    }

    fn turn(&mut self, now: Now) {
        self.generation += 1;
        self.now = now;
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("policy", &self.0.policy).field("counts", &self.counts()).finish()
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("generation", &self.generation).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
