//! Routers that share a server beside one exact limiter that sees the same requests: what is refused here and admitted there, and
//! how much more is admitted than may be.

mod run;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use cofferdam_limits::redis::{Mode, RedisStore};
use cofferdam_limits::{Admission, Demand, Limits, Permit, Refusal};

use crate::contract::runtime;
use crate::loans::eventually;
use crate::shared_store::HeldServer;

/// Routers on one server, each of which hears what the others are short of.
pub(crate) struct Fleet {
    pub(crate) held: HeldServer,
    pub(crate) stores: Vec<Arc<RedisStore>>,
    limits: Vec<Limits>,
    n_started: usize,
    budget: Duration,
}

impl Fleet {
    pub(crate) fn start(n_routers: usize) -> Self {
        Self::on(HeldServer::start(), n_routers, Duration::from_secs(600))
    }

    pub(crate) fn on(held: HeldServer, n_routers: usize, budget: Duration) -> Self {
        let mut fleet = Self { held, stores: Vec::new(), limits: Vec::new(), n_started: 0, budget };
        (0..n_routers).for_each(|at| fleet.replace(at));
        fleet
    }

    /// Another router in place of the one at `at`, which ends without a word.
    pub(crate) fn replace(&mut self, at: usize) {
        self.n_started += 1;
        let name = format!("session{}", self.n_started);
        let store = self.held.open(Mode::Auto, &name);
        let limits = Limits::new(store.clone(), self.budget);
        if at < self.stores.len() {
            (self.stores[at], self.limits[at]) = (store, limits);
        } else {
            self.stores.push(store);
            self.limits.push(limits);
        }
        eventually("the router hears the others", || self.held.n_hearing(&name) == 1);
    }

    pub(crate) fn router(&self, at: usize) -> &Limits {
        &self.limits[at]
    }

    pub(crate) fn settle(&self) {
        let runtime = runtime(false);
        self.stores.iter().for_each(|store| runtime.block_on(store.settled()));
    }

    /// The time comes to be this, of the server and of all routers.
    fn reach(&self, us: u64) {
        if self.held.clock.now_us() < us {
            self.held.set_us(us);
        }
    }

    /// Time goes by.
    pub(crate) fn pass(&self, us: u64) {
        self.settle();
        self.held.set_us(self.held.clock.now_us() + us);
    }

    /// Requests that were refused before all holders had answered.
    pub(crate) fn unanswered(&self) -> u64 {
        self.stores.iter().map(|store| store.sharing().false_refusals_possible).sum()
    }
}

/// Admits one request, however long that takes.
pub(crate) fn admit(limits: &Limits, demand: &Demand<'_>) -> Result<Permit, Refusal> {
    match limits.admit(demand) {
        Admission::Admitted(permit) => Ok(permit),
        Admission::Refused(refusal) => Err(refusal),
        Admission::Pending(pending) => runtime(false).block_on(pending),
    }
}
