//! Who waits, whose turn it is when a place comes free, and what becomes of a wait.

use std::task::Waker;
use std::time::Duration;

use cofferdam_model::CellReason;
use tokio::time::Instant;

use super::{Core, Denied, Entered, Held, Stop, Woken};
use crate::claim::Claim;
use crate::estimate::in_us;
use crate::list::Maybe;
use crate::refusal::Refused;
use crate::rounds::Flow;
use crate::tenants::{Counts, Looked, Slot};
use crate::waiters::{Stage, Ticket, Wish};

impl Core {
    /// A place now, or one in the queue, or a refusal. `waker` is woken when a wait is over.
    /// `now` is asked only where there is no place now.
    pub(crate) fn enter(
        &mut self,
        claim: &Claim<'_>,
        waker: &Waker,
        now: impl FnOnce() -> Instant,
    ) -> Entered {
        let looked = self.tenants.look(claim.tenant);
        match self.admit_there(claim, looked) {
            Ok(held) => Entered::Admitted(held),
            Err(denied) => self.queue(claim, looked, denied, waker, now()),
        }
    }

    fn queue(
        &mut self,
        claim: &Claim<'_>,
        looked: Looked,
        denied: Denied,
        waker: &Waker,
        now: Instant,
    ) -> Entered {
        let class = claim.class;
        let Denied::Full(Stop { has, .. }) = denied else {
            return Entered::Refused(self.refuse(class, denied));
        };
        // Nobody waits for a cap: its room is for those who will have a place under it.
        if self.full_cap_of(claim).is_some() {
            return Entered::Refused(self.refuse(class, denied));
        }
        let room = &self.classes[class];
        if has.queued >= room.tenant_queue && room.tenant_queue < room.queue {
            let full = Denied::Full(Stop { reason: CellReason::Tenant, cap: None, has });
            return Entered::Refused(self.refuse(class, full));
        }
        let patience = self.patience(claim, now);
        if self.classes[class].line.len() >= self.classes[class].queue || patience.is_zero() {
            return Entered::Refused(self.refuse(class, denied));
        }
        let expected = self.expected_wait(claim, has);
        if expected > patience {
            let room = &mut self.classes[class];
            room.hopeless += 1;
            room.ageing.turned_away(room.max_wait, now);
            return Entered::Refused(self.refuse_after(class, denied, Duration::ZERO, expected));
        }
        Entered::Waiting(self.join(claim, looked, waker, now), now + patience)
    }

    /// Hands freed places on until nobody who waits can be given one.
    pub(crate) fn hand_on(&mut self, now: Instant, woken: &mut Woken) {
        while let Some((class, flow)) = self.next_turn() {
            let waker = self.grant(class, flow, now);
            woken.push(waker);
        }
    }

    /// Has another waker woken when there is an outcome to [collect](Self::collect); see [`crate::waiters::Waiters::watch`].
    pub(crate) fn watch(&mut self, ticket: &Ticket, waker: Waker) -> Result<Waker, Waker> {
        self.waiters.watch(ticket, waker)
    }

    /// What became of a waiter. One that still waits has waited long enough, and is refused.
    /// `now` is asked only where it is to be said how long that was.
    pub(crate) fn collect(&mut self, ticket: Ticket, now: impl FnOnce() -> Instant) -> Result<Held, Refused> {
        let wish = self.waiters.wish(&ticket);
        if self.waiters.is_in_line(&ticket) {
            let now = now();
            let waited = now.saturating_duration_since(wish.since);
            self.take_out(self.waiters.number(&ticket), Stage::Cancelled);
            self.waiters.collect(ticket);
            let class = &mut self.classes[wish.class];
            class.timeouts += 1;
            class.ageing.turned_away(class.max_wait, now);
            // A waiter that neither class nor cell stops is stopped by its tenant's share.
            let has = self.tenants.counts(wish.tenant, wish.class);
            let at_share = self.is_at_share(wish.class, has);
            let reason = self.stopped(wish.class).filter(|_| !at_share).unwrap_or(CellReason::Tenant);
            let full = Denied::Full(Stop { reason, cap: None, has });
            self.dequeue(wish);
            return Err(self.refuse_after(wish.class, full, waited, Duration::ZERO));
        }
        match self.waiters.collect(ticket) {
            Stage::Granted { since, paid_us } => Ok(Held::granted(wish, since, paid_us)),
            Stage::Shed(cap) => {
                let stop = Stop { reason: CellReason::Class, cap: Some(cap), has: Counts::NOTHING };
                let waited = now().saturating_duration_since(wish.since);
                Err(self.refuse_after(wish.class, Denied::Full(stop), waited, Duration::ZERO))
            }
            Stage::Waiting(_) | Stage::Cancelled => Err(Refused::ShutDown),
        }
    }

    /// A waiter went away. A place that it had been given comes back: the caller [hands it on](Self::hand_on).
    pub(crate) fn abandon(&mut self, ticket: Ticket, now: Instant) {
        let wish = self.waiters.wish(&ticket);
        self.classes[wish.class].abandoned += 1;
        if self.waiters.is_in_line(&ticket) {
            self.take_out(self.waiters.number(&ticket), Stage::Cancelled);
            self.waiters.collect(ticket);
            self.dequeue(wish);
        } else if let Stage::Granted { since, paid_us } = self.waiters.collect(ticket) {
            // It was not worked on: how long it lay there is charged, but measures nothing.
            let held_us = in_us(now.saturating_duration_since(since));
            self.give_back(Held::granted(wish, since, paid_us), Some(held_us));
        }
    }

    /// How long a newcomer may wait: at most `max_wait`, and a quarter of what is left until its deadline.
    fn patience(&mut self, claim: &Claim<'_>, now: Instant) -> Duration {
        let class = &mut self.classes[claim.class];
        if class.rounds.is_idle() {
            class.ageing.idle(now);
        }
        let (mut ageing, max_wait) = (class.ageing, class.max_wait);
        let patience = ageing.patience(max_wait, || self.wait_for(claim.class, 1), now);
        self.classes[claim.class].ageing = ageing;
        let left = claim.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
        patience.min(left / 4)
    }

    /// How long it takes for a place that the class can be given to come free: of the class's own, or, where the cell
    /// is what is full, of anybody's.
    fn wait_for(&self, class: usize, n: u64) -> Duration {
        match self.stopped(class) {
            Some(CellReason::Class) => self.classes[class].hold.wait(n, self.classes[class].used),
            Some(CellReason::Cell) => self.hold.wait(n, self.used),
            Some(CellReason::Tenant) | None => Duration::ZERO,
        }
    }

    /// How long a newcomer would wait, as far as that can be known: for its tenant's own places, and for class or cell
    /// behind what the rounds let go first.
    fn expected_wait(&self, claim: &Claim<'_>, has: Counts) -> Duration {
        let class = &self.classes[claim.class];
        let own = if self.is_at_share(claim.class, has) {
            let hold = if has.hold.known().is_some() { has.hold } else { class.hold };
            hold.wait(u64::from(has.queued) + 1, has.used)
        } else {
            Duration::ZERO
        };
        let owed = has.flow.get().map_or(0, |flow| class.rounds.rounds_before(self.flows.get(flow)));
        let rounds = owed + u64::from(has.queued / claim.weight.clamp(1, Claim::MAX_WEIGHT));
        let before = class.rounds.n_active() + rounds.saturating_mul(class.rounds.weights());
        own.max(self.wait_for(claim.class, before.min(u64::from(class.line.len())) + 1))
    }

    fn join(&mut self, claim: &Claim<'_>, looked: Looked, waker: &Waker, now: Instant) -> Ticket {
        // Made under the lock, and trusted: whoever is given a place at once needs none. It comes before anything is counted, so
        // that one that panics leaves nothing behind.
        let waker = waker.clone();
        let (class, tenant) = (claim.class, self.tenants.enter(claim.tenant, looked));
        self.tenants.enqueue(tenant, class);
        let has = self.tenants.counts(tenant, class);
        let flow = has.flow.get().unwrap_or_else(|| {
            let flow = self.flows.insert(Flow::new(tenant));
            self.tenants.counts_mut(tenant, class).flow = Maybe::some(flow);
            flow
        });
        for cap in claim.caps.iter() {
            self.caps[cap.get()].queued += 1;
        }
        self.waiting += 1;
        let at_share = self.is_at_share(class, has);
        let room = &mut self.classes[class];
        let weight = claim.weight.clamp(1, Claim::MAX_WEIGHT);
        room.rounds.weigh(self.flows.get_mut(flow), weight);
        let wish = Wish { class, tenant, flow, caps: claim.caps, since: now };
        let ticket = self.waiters.join(&mut self.flows.get_mut(flow).line, &mut room.line, wish, waker);
        if !at_share {
            let quantum = room.quantum_us();
            room.rounds.activate(&mut self.flows, flow, quantum);
        }
        ticket
    }

    /// The class and the sub-queue whose turn it is: a class below its floor before one that borrows, then by
    /// priority, then by who came first.
    fn next_turn(&mut self) -> Option<(usize, u32)> {
        let mut best: Option<((bool, u8, u64), usize, u32)> = None;
        for index in 0..self.classes.len() {
            if self.classes[index].rounds.is_idle() || self.stopped(index).is_some() {
                continue;
            }
            let Some(flow) = self.next_flow(index) else { continue };
            let Some(first) = self.flows.get(flow).line.first() else { continue };
            let class = &self.classes[index];
            let rank = (class.used >= class.floor, class.priority, self.waiters.arrival(first));
            if best.is_none_or(|(other, ..)| rank < other) {
                best = Some((rank, index, flow));
            }
        }
        best.map(|(_, index, flow)| (index, flow))
    }

    /// The sub-queue whose turn it is within a class. Tenants at their share are not among them; only after a share was
    /// lowered some are found here, once each.
    fn next_flow(&mut self, index: usize) -> Option<u32> {
        loop {
            let at = self.classes[index].rounds.first()?;
            let has = self.tenants.counts(self.flows.get(at).tenant, index);
            if !self.is_at_share(index, has) {
                return Some(at);
            }
            self.classes[index].rounds.deactivate(&mut self.flows, at);
        }
    }

    /// Gives a place to the first of a sub-queue: whom to wake.
    fn grant(&mut self, index: usize, flow: u32, now: Instant) -> Option<Waker> {
        let at = self.flows.get(flow).line.first()?;
        let wish = self.waiters.wish_of(at);
        if let Some(cap) = wish.caps.iter().find(|cap| self.caps[cap.get()].stops_waiter(self.max)) {
            let waker = self.take_out(at, Stage::Shed(cap));
            self.dequeue(wish);
            return waker;
        }
        let paid_us = self.tenants.counts(wish.tenant, index).hold.or(self.classes[index].hold);
        let waker = self.take_out(at, Stage::Granted { since: now, paid_us });
        // In this order, so that the tenant is not forgotten between the two.
        self.occupy(index, wish.tenant, wish.caps);
        self.tenants.dequeue(wish.tenant, index);
        let at_share = self.is_at_share(index, self.tenants.counts(wish.tenant, index));
        let class = &mut self.classes[index];
        class.ageing.granted(now.saturating_duration_since(wish.since), class.max_wait, now);
        let quantum = class.quantum_us();
        class.rounds.charge(&mut self.flows, flow, paid_us, quantum);
        if at_share {
            class.rounds.deactivate(&mut self.flows, flow);
        }
        waker
    }

    /// Takes a waiter out of its lines for an outcome: whom to wake. The caller [dequeues](Self::dequeue) it.
    pub(super) fn take_out(&mut self, at: u32, stage: Stage) -> Option<Waker> {
        let wish = self.waiters.wish_of(at);
        let class = &mut self.classes[wish.class];
        let line = &mut self.flows.get_mut(wish.flow).line;
        let waker = self.waiters.decide(line, &mut class.line, at, stage);
        if line.is_empty() {
            class.rounds.deactivate(&mut self.flows, wish.flow);
        }
        for cap in wish.caps.iter() {
            self.caps[cap.get()].queued -= 1;
        }
        self.waiting -= 1;
        waker
    }

    /// Counts a waiter that left without a place out of its tenant.
    pub(super) fn dequeue(&mut self, wish: Wish) {
        let has = self.tenants.counts(wish.tenant, wish.class);
        if has.used == 0 && has.queued == 1 {
            self.forget_flow(wish.tenant, wish.class);
        }
        self.tenants.dequeue(wish.tenant, wish.class);
    }

    /// A place of a tenant comes back: its sub-queue, if it has one, is charged what was not paid, and takes part again.
    /// The place is still counted in the tenant.
    pub(super) fn release_flow(&mut self, held: Held, held_us: Option<u32>) {
        let index = held.class as usize;
        let mut has = self.tenants.counts(held.tenant, index);
        let Some(flow) = has.flow.get() else { return };
        has.used -= 1;
        if has.used == 0 && has.queued == 0 {
            return self.forget_flow(held.tenant, index);
        }
        let is_at_share = self.is_at_share(index, has);
        let class = &mut self.classes[index];
        let quantum = class.quantum_us();
        if let (1.., Some(us)) = (held.paid_us, held_us) {
            class.rounds.correct(&mut self.flows, flow, held.paid_us, us, quantum);
        }
        if has.queued > 0 && !is_at_share {
            class.rounds.activate(&mut self.flows, flow, quantum);
        }
    }

    fn forget_flow(&mut self, tenant: Slot, class: usize) {
        let has = self.tenants.counts_mut(tenant, class);
        if let Some(flow) = has.flow.get() {
            has.flow = Maybe::NONE;
            self.flows.vacate(flow);
        }
    }

    /// Every sub-queue with somebody in line takes part again, until its turn shows that its tenant is at its share.
    pub(super) fn activate_all(&mut self) {
        for index in 0..self.classes.len() {
            let mut next = self.classes[index].line.first();
            while let Some(at) = next {
                let flow = self.waiters.wish_of(at).flow;
                let class = &mut self.classes[index];
                let quantum = class.quantum_us();
                class.rounds.activate(&mut self.flows, flow, quantum);
                next = self.waiters.next_in_class(at);
            }
        }
    }
}

impl Held {
    fn granted(wish: Wish, since: Instant, paid_us: u32) -> Self {
        let Wish { class, tenant, caps, .. } = wish;
        Self { class: class as u32, tenant, caps, paid_us, is_measured: true, since: Some(since) }
    }
}
