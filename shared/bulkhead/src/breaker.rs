//! A circuit breaker: where a dependency fails, it is left alone for a while, and then tried by a few. It knows no
//! dependency and no request: whoever passes says how it ended.
//!
//! A failure is what the dependency did: its errors, and answers that never came. What we refused ourselves, what the caller
//! took back or got wrong, and what waited too long for a place says nothing of it, and is no failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::lifetime::LIFETIME;

/// Parts of a window that are forgotten one after the other.
const PARTS: u32 = 10;

/// When a breaker opens and how it closes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures within the window that open it, at least one.
    pub failures: u32,
    /// The share of all that ended within the window that must have failed as well, in thousandths.
    pub share_thousandths: u32,
    /// How long an outcome counts.
    pub window: Duration,
    /// How long it stays open.
    pub open_for: Duration,
    /// How many may try at once then, and how many of them have to succeed; at least one.
    pub probes: u32,
}

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
    /// What it does now.
    pub state: BreakerState,
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
    Closed(Window),
    Open { until: Instant },
    HalfOpen { on_their_way: u32, succeeded: u32 },
}

/// Outcomes of the last while, in parts.
struct Window {
    parts: [Part; PARTS as usize],
    /// The part that runs, and when it began.
    at: usize,
    began: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    ended: u32,
    failed: u32,
}

/// How a call of the dependency ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
    Unknown,
}

impl Default for BreakerPolicy {
    /// Five failures of at least half of the calls within ten seconds open it for thirty; then one tries.
    fn default() -> Self {
        Self {
            failures: 5,
            share_thousandths: 500,
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(30),
            probes: 1,
        }
    }
}

impl Breaker {
    /// A breaker that is closed.
    pub fn new(policy: BreakerPolicy) -> Self {
        let now = Now::Closed(Window::begin(Instant::now()));
        let state = Mutex::new(State { generation: 0, now, opened: 0, refused: 0 });
        Self(Arc::new(Shared { policy, state }))
    }

    /// Leave to call the dependency, or how long it is left alone. It never waits.
    pub fn pass(&self) -> Result<Pass, Open> {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if let Now::Open { until } = state.now
            && now >= until
        {
            state.turn(Now::HalfOpen { on_their_way: 0, succeeded: 0 });
        }
        let left = match &mut state.now {
            Now::Closed(_) => None,
            Now::Open { until } => Some(*until - now),
            Now::HalfOpen { on_their_way, succeeded } => {
                // No more than have to succeed: the first failure would have spared the others.
                let is_enough = *on_their_way + *succeeded >= self.0.policy.probes.max(1);
                *on_their_way += u32::from(!is_enough);
                is_enough.then_some(Duration::ZERO)
            }
        };
        match left {
            None => {
                let is_trial = matches!(state.now, Now::HalfOpen { .. });
                Ok(Pass { shared: Some(Arc::clone(&self.0)), generation: state.generation, is_trial })
            }
            Some(left) => {
                state.refused += 1;
                Err(Open(left))
            }
        }
    }

    /// What it does now, and what it has counted.
    pub fn counts(&self) -> BreakerCounts {
        let state = self.0.state.lock();
        let now = match state.now {
            Now::Closed(_) => BreakerState::Closed,
            Now::Open { until } if Instant::now() < until => BreakerState::Open,
            Now::Open { .. } | Now::HalfOpen { .. } => BreakerState::HalfOpen,
        };
        BreakerCounts { state: now, opened: state.opened, refused: state.refused }
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
        self.shared.take().is_some_and(|shared| shared.ended(self.generation, how))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.end(Ended::Unknown);
    }
}

impl Shared {
    /// The result is whether the breaker opened or closed by it.
    fn ended(&self, generation: u64, how: Ended) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        let policy = &self.policy;
        match &mut state.now {
            Now::Closed(window) => {
                if how != Ended::Unknown {
                    window.count(how == Ended::Badly, now, policy.window);
                }
                if how == Ended::Badly && window.is_too_bad(policy) {
                    state.open(now + policy.open_for.min(LIFETIME));
                }
            }
            Now::HalfOpen { on_their_way, succeeded } => match how {
                Ended::Unknown => *on_their_way -= 1,
                Ended::Badly => state.open(now + policy.open_for.min(LIFETIME)),
                Ended::Well => {
                    (*on_their_way, *succeeded) = (*on_their_way - 1, *succeeded + 1);
                    if *succeeded >= policy.probes.max(1) {
                        state.turn(Now::Closed(Window::begin(now)));
                    }
                }
            },
            // A pass of the state before is of another generation.
            Now::Open { .. } => {}
        }
        state.generation != generation
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

impl Window {
    fn begin(now: Instant) -> Self {
        Self { parts: [Part::default(); PARTS as usize], at: 0, began: now }
    }

    fn count(&mut self, has_failed: bool, now: Instant, window: Duration) {
        self.go_on(now, window / PARTS);
        let part = &mut self.parts[self.at];
        part.ended = part.ended.saturating_add(1);
        part.failed = part.failed.saturating_add(u32::from(has_failed));
    }

    /// Forgets the parts that are over.
    fn go_on(&mut self, now: Instant, part: Duration) {
        let part = part.max(Duration::from_millis(1));
        let over = now.saturating_duration_since(self.began).as_millis() / part.as_millis();
        if over >= u128::from(PARTS) {
            *self = Self::begin(now);
            return;
        }
        // Fewer than there are parts.
        for _ in 0..over {
            self.at = (self.at + 1) % self.parts.len();
            self.parts[self.at] = Part::default();
            self.began += part;
        }
    }

    fn is_too_bad(&self, policy: &BreakerPolicy) -> bool {
        let sum = |count: fn(&Part) -> u32| self.parts.iter().map(|part| u64::from(count(part))).sum::<u64>();
        let (ended, failed) = (sum(|part| part.ended), sum(|part| part.failed));
        failed >= u64::from(policy.failures.max(1))
            && failed * 1000 >= ended * u64::from(policy.share_thousandths)
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
