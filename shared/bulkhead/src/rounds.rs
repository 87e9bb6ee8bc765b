//! Whose turn it is: weighted deficit round-robin over sub-queues ("flows"), one for each tenant of a class. It knows
//! no places, no limits and no clock.
//!
//! A flow has an account in microseconds of place-time. In each round it gets a *quantum* for each unit of its weight,
//! pays for what it is given, and has its turn as long as its account is above zero. A flow that owes more than a
//! round's worth is put straight into the list of the round in which it will have paid, among [`AHEAD`] lists with one
//! bit each, so that finding the next turn visits nobody in vain: every operation is O(1), however many wait. Within a
//! round, flows go one by one in turns, so that a large weight comes often and not in bursts.
//!
//! The quantum may differ from call to call (it is what a request of the class costs on average), since accounts are
//! kept in time and not in rounds.

use crate::list::{Link, List, Slab};
use crate::tenants::Slot;

/// How many rounds ahead a flow's turn can be. What it owes beyond that is forgiven.
const AHEAD: u64 = 64;

/// A tenant's sub-queue in a class.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) tenant: Slot,
    /// Who waits, in order of arrival.
    pub(crate) line: List,
    /// Whether the flow takes part in the rounds. One with nobody in line, or of a tenant at its share, does not.
    active: bool,
    link: Link,
    weight: u32,
    /// The round of its next turn.
    round: u64,
    /// What it may spend in that round.
    account_us: i64,
}

/// The rounds of a class.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The flows of a round, by the round's number modulo [`AHEAD`].
    lists: Box<[List; AHEAD as usize]>,
    /// A bit for each list that has somebody in it.
    occupied: u64,
    /// The round that is being gone through: the virtual time.
    now: u64,
    /// How many flows are active, and their weights together.
    n_active: u32,
    weights: u64,
}

impl Flow {
    pub(crate) fn new(tenant: Slot) -> Self {
        let link = Link::NONE;
        Self { tenant, line: List::EMPTY, active: false, link, weight: 1, round: 0, account_us: 0 }
    }

    fn allowance(&self, quantum_us: u32) -> i64 {
        i64::from(quantum_us.max(1)) * i64::from(self.weight)
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self { lists: Box::new([List::EMPTY; AHEAD as usize]), occupied: 0, now: 0, n_active: 0, weights: 0 }
    }
}

impl Rounds {
    /// Whether no flow takes part.
    pub(crate) fn is_idle(&self) -> bool {
        self.occupied == 0
    }

    /// How many flows take part.
    pub(crate) fn n_active(&self) -> u64 {
        u64::from(self.n_active)
    }

    /// The weights of all active flows.
    pub(crate) fn weights(&self) -> u64 {
        self.weights
    }

    /// How many rounds pass before a flow has its turn.
    pub(crate) fn rounds_before(&self, flow: &Flow) -> u64 {
        flow.round.saturating_sub(self.now)
    }

    /// Lets a flow take part. One whose last turn lies behind begins at the current round with a round's allowance: what
    /// it did not use is lost, and what it owes is not.
    pub(crate) fn activate(&mut self, flows: &mut Slab<Flow>, at: u32, quantum_us: u32) {
        let flow = flows.get_mut(at);
        if flow.active {
            return;
        }
        flow.active = true;
        if flow.round < self.now || flow.account_us <= 0 {
            flow.round = flow.round.max(self.now);
            flow.account_us = flow.allowance(quantum_us);
        }
        self.n_active += 1;
        self.weights += u64::from(flow.weight);
        self.join(flows, at);
    }

    /// Takes a flow out of the rounds, if it is in them. Its account stays.
    pub(crate) fn deactivate(&mut self, flows: &mut Slab<Flow>, at: u32) {
        if !flows.get(at).active {
            return;
        }
        self.leave(flows, at);
        let flow = flows.get_mut(at);
        flow.active = false;
        self.n_active -= 1;
        self.weights -= u64::from(flow.weight);
    }

    /// Gives a flow its weight, from its next allowance on.
    pub(crate) fn weigh(&mut self, flow: &mut Flow, weight: u32) {
        if flow.active {
            self.weights = self.weights - u64::from(flow.weight) + u64::from(weight);
        }
        flow.weight = weight;
    }

    /// The flow whose turn it is.
    pub(crate) fn first(&mut self) -> Option<u32> {
        if self.occupied == 0 {
            return None;
        }
        // All rounds that have somebody lie less than `AHEAD` ahead.
        self.now += u64::from(self.occupied.rotate_right((self.now % AHEAD) as u32).trailing_zeros());
        self.lists[(self.now % AHEAD) as usize].first()
    }

    /// A flow pays for what it was given, and goes behind the others of its next round.
    pub(crate) fn charge(&mut self, flows: &mut Slab<Flow>, at: u32, cost_us: u32, quantum_us: u32) {
        self.settle(flows, at, -i64::from(cost_us), quantum_us, true);
    }

    /// A flow paid `paid_us` for what took `used_us`: the difference is given back or charged.
    pub(crate) fn correct(
        &mut self,
        flows: &mut Slab<Flow>,
        at: u32,
        paid_us: u32,
        used_us: u32,
        quantum_us: u32,
    ) {
        self.settle(flows, at, i64::from(paid_us) - i64::from(used_us), quantum_us, false);
    }

    fn settle(&mut self, flows: &mut Slab<Flow>, at: u32, by_us: i64, quantum_us: u32, goes_behind: bool) {
        let now = self.now;
        let flow = flows.get_mut(at);
        let allowance = flow.allowance(quantum_us);
        let mut round = flow.round.max(now);
        let mut account = flow.account_us + by_us;
        if account <= 0 {
            let owed = (-account / allowance) as u64 + 1;
            let rounds = owed.min(now + AHEAD - 1 - round);
            round += rounds;
            account = (account + rounds as i64 * allowance).max(1);
        } else {
            let early = (((account - 1) / allowance) as u64).min(round - now);
            round -= early;
            // Nobody saves up for later.
            account = (account - early as i64 * allowance).min(allowance);
        }
        let moves = flow.active && (goes_behind || round != flow.round);
        if moves {
            self.leave(flows, at);
        }
        let flow = flows.get_mut(at);
        (flow.round, flow.account_us) = (round, account);
        if moves {
            self.join(flows, at);
        }
    }

    fn join(&mut self, flows: &mut Slab<Flow>, at: u32) {
        let list = (flows.get(at).round % AHEAD) as usize;
        self.lists[list].push(flows, at, |flow| &mut flow.link);
        self.occupied |= 1 << list;
    }

    fn leave(&mut self, flows: &mut Slab<Flow>, at: u32) {
        let list = (flows.get(at).round % AHEAD) as usize;
        self.lists[list].remove(flows, at, |flow| &mut flow.link);
        if self.lists[list].is_empty() {
            self.occupied &= !(1 << list);
        }
    }
}
