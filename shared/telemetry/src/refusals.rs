//! What a process refused or failed, summed up in the log: a line for each reason and class, with those that met it most, and
//! none where nothing was. Single requests are logged at `debug` alone.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::tally::{Tallies, Tally};

/// What all workers refused, by class `C` and tenant `K`. Clones share everything.
#[derive(Debug)]
pub struct Refusals<C, K>(Tallies<Refused<C>, K>);

/// What one worker refused.
#[derive(Debug)]
pub struct Counted<C, K>(Arc<Tally<Refused<C>, K>>);

/// What requests were refused for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused<C> {
    reason: &'static str,
    side: Side,
    class: Option<C>,
}

/// Whose doing a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request cannot be served as it is.
    Request,
    /// There is no room for it.
    Room,
    /// Nothing gave an answer.
    Failure,
}

impl<C, K> Clone for Refusals<C, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C, K> Default for Refusals<C, K> {
    fn default() -> Self {
        Self(Tallies::default())
    }
}

impl<C: Clone + Eq, K: Clone + Eq + Hash> Counted<C, K> {
    /// Counts a request that was refused for `reason`.
    pub fn add(&self, reason: &'static str, side: Side, of: Option<(&K, &C)>) {
        let class = of.map(|(_, class)| class);
        let is = |known: &Refused<C>| known.reason == reason && known.class.as_ref() == class;
        self.0.add(is, || Refused { reason, side, class: class.cloned() }, of.map(|(key, _)| key));
    }
}

impl<C: Clone + Eq + Display, K: Clone + Hash + Ord + Display> Refusals<C, K> {
    /// One more worker's.
    pub fn worker(&self) -> Counted<C, K> {
        Counted(self.0.worker())
    }

    /// Logs what was refused, every so often, for ever; never where that is no time at all.
    pub async fn tell_for_ever(self, every: Duration) {
        if every.is_zero() {
            return;
        }
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tell();
        }
    }

    /// Logs what was refused since the last time.
    pub fn tell(&self) {
        for told in self.0.take() {
            let (reason, n, tenants) = (told.kind.reason, told.n, told.keys());
            let class = told.kind.class.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            match told.kind.side {
                Side::Request => tracing::info!(reason, class, n, tenants, "requests refused as they are"),
                Side::Room => tracing::warn!(reason, class, n, tenants, "requests refused"),
                Side::Failure => tracing::warn!(reason, class, n, tenants, "requests failed"),
            }
        }
    }
}
