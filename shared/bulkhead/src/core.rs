//! The rules of admission over plain counts: who gets a place, who waits, who is next. It knows no runtime, no lock
//! and no clock, so that every rule can be tested by calls in order.

use std::task::Waker;

use cofferdam_model::{CellReason, TenantId};
use tokio::time::Instant;

use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::tenants::{Counts, Slot, Tenants};
use crate::waiters::{Line, Stage, Ticket, Waiters, Wish};

/// The counts of a cell.
pub(crate) struct Core {
    pub(crate) max: u32,
    /// Places that nobody holds. Never less than `unused_floors`.
    pub(crate) free: u32,
    /// The sum over all classes of floor - used, where that is positive; kept by every change of a class's `used`.
    pub(crate) unused_floors: u32,
    pub(crate) classes: Box<[Class]>,
    pub(crate) tenants: Tenants,
    pub(crate) waiters: Waiters,
    pub(crate) closed: bool,
}

/// The counts of a class.
pub(crate) struct Class {
    pub(crate) floor: u32,
    pub(crate) ceiling: u32,
    pub(crate) queue: u32,
    priority: u8,
    tenant_places: u32,
    tenant_queue: u32,
    pub(crate) used: u32,
    pub(crate) line: Line,
    pub(crate) granted: u64,
    /// By reason, in the order of [`CellReason::ALL`].
    pub(crate) refused: [u64; 3],
    pub(crate) timeouts: u64,
    pub(crate) abandoned: u64,
    pub(crate) peak_used: u32,
}

/// A place at all three levels. Whoever has it calls [`Core::release`] with it once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    class: u32,
    tenant: Slot,
}

/// Why there was no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    Full(Full),
    Closed,
}

/// The compartment that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) reason: CellReason,
    pub(crate) used: u32,
    pub(crate) limit: u32,
    pub(crate) queued: u32,
    pub(crate) queue: u32,
}

/// What became of a request that may wait.
#[derive(Debug)]
pub(crate) enum Entered {
    Admitted(Held),
    Waiting(Ticket),
    Denied(Denied),
}

impl Core {
    pub(crate) fn new(layout: &Layout) -> Self {
        let class = |class| Class::new(class, layout.tenant_share());
        let classes: Box<[Class]> = layout.classes().iter().map(class).collect();
        Self {
            max: layout.max_in_flight(),
            free: layout.max_in_flight(),
            unused_floors: classes.iter().map(|class| class.floor).sum(),
            tenants: Tenants::new(layout.max_tenants(), classes.len()),
            waiters: Waiters::default(),
            closed: false,
            classes,
        }
    }

    /// A place now. What stops it is told, but not counted as a refusal.
    pub(crate) fn admit(&mut self, class: usize, tenant: &TenantId) -> Result<Held, Denied> {
        if self.closed {
            return Err(Denied::Closed);
        }
        if let Some(reason) = self.stopped(class) {
            let has = self.tenants.find(tenant, class);
            let reason = if self.is_at_share(class, has) { CellReason::Tenant } else { reason };
            return Err(Denied::Full(self.full(class, has, reason)));
        }
        let slot = self.tenants.enter(tenant);
        let has = self.tenants.counts(slot, class);
        if self.is_at_share(class, has) {
            return Err(Denied::Full(self.full(class, has, CellReason::Tenant)));
        }
        Ok(self.occupy(class, slot))
    }

    /// A place now, or a refusal.
    pub(crate) fn admit_or_refuse(&mut self, class: usize, tenant: &TenantId) -> Result<Held, Denied> {
        self.admit(class, tenant).map_err(|denied| self.refuse(class, denied))
    }

    /// A place now, or one in the queue, or a refusal.
    pub(crate) fn enter(&mut self, class: usize, tenant: &TenantId, since: Instant) -> Entered {
        let denied = match self.admit(class, tenant) {
            Ok(held) => return Entered::Admitted(held),
            Err(denied @ Denied::Closed) => return Entered::Denied(denied),
            Err(denied) => denied,
        };
        let room = &self.classes[class];
        let has = self.tenants.find(tenant, class);
        if has.queued >= room.tenant_queue && room.tenant_queue < room.queue {
            let full = self.full(class, has, CellReason::Tenant);
            return Entered::Denied(self.refuse(class, Denied::Full(full)));
        }
        if room.line.len() >= room.queue {
            return Entered::Denied(self.refuse(class, denied));
        }
        let slot = self.tenants.enter(tenant);
        self.tenants.enqueue(slot, class);
        let wish = Wish { class, tenant: slot, since };
        Entered::Waiting(self.waiters.join(&mut self.classes[class].line, wish))
    }

    /// Gives a place back and hands it on: whom to wake.
    pub(crate) fn release(&mut self, held: Held) -> Option<Waker> {
        let index = held.class as usize;
        let class = &mut self.classes[index];
        class.used -= 1;
        self.unused_floors += u32::from(class.used < class.floor);
        self.free += 1;
        self.tenants.release(held.tenant, index);
        self.hand_on()
    }

    /// Whether a waiter has an outcome to [collect](Self::collect); see [`Waiters::watch`].
    pub(crate) fn watch(&mut self, ticket: &Ticket, waker: &mut Waker) -> bool {
        self.waiters.watch(ticket, waker)
    }

    /// What became of a waiter. One that still waits has waited long enough, and is refused.
    pub(crate) fn collect(&mut self, ticket: Ticket) -> Result<Held, Denied> {
        let wish = self.waiters.wish(&ticket);
        match self.waiters.collect(&mut self.classes[wish.class].line, ticket) {
            Stage::Granted => Ok(Held::of(wish)),
            Stage::Cancelled => Err(Denied::Closed),
            Stage::Waiting(_) => {
                self.tenants.dequeue(wish.tenant, wish.class);
                self.classes[wish.class].timeouts += 1;
                // A waiter that neither class nor cell stops is stopped by its tenant's share.
                let has = self.tenants.counts(wish.tenant, wish.class);
                let at_share = self.is_at_share(wish.class, has);
                let reason = self.stopped(wish.class).filter(|_| !at_share).unwrap_or(CellReason::Tenant);
                let full = self.full(wish.class, has, reason);
                Err(self.refuse(wish.class, Denied::Full(full)))
            }
        }
    }

    /// A waiter went away. If it had been granted, it gives its place on: whom to wake.
    pub(crate) fn abandon(&mut self, ticket: Ticket) -> Option<Waker> {
        let wish = self.waiters.wish(&ticket);
        self.classes[wish.class].abandoned += 1;
        match self.waiters.collect(&mut self.classes[wish.class].line, ticket) {
            Stage::Granted => self.release(Held::of(wish)),
            Stage::Cancelled => None,
            Stage::Waiting(_) => {
                self.tenants.dequeue(wish.tenant, wish.class);
                None
            }
        }
    }

    /// Closes: nobody is admitted from now on, and whoever waits is woken to hear it.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        let mut wakers = Vec::new();
        for index in 0..self.classes.len() {
            let line = &mut self.classes[index].line;
            while let Some((waker, tenant)) = self.waiters.cancel_first(line) {
                self.tenants.dequeue(tenant, index);
                wakers.extend(waker);
            }
        }
        wakers
    }

    /// The places that the other classes' floors keep from this one.
    pub(crate) fn kept_from(&self, class: usize) -> u32 {
        let class = &self.classes[class];
        self.unused_floors - class.floor.saturating_sub(class.used)
    }

    /// What stops every tenant of a class, if anything does. A ceiling that is the whole cell is no limit beside it:
    /// then the cell is what is full, and another cell may have room.
    fn stopped(&self, index: usize) -> Option<CellReason> {
        let class = &self.classes[index];
        if class.used >= class.ceiling && class.ceiling < self.max {
            return Some(CellReason::Class);
        }
        let has_room = self.free > 0 && (class.used < class.floor || self.free > self.kept_from(index));
        (!has_room).then_some(CellReason::Cell)
    }

    /// Whether a tenant holds its share of a class. A share that is the whole class is no limit beside it.
    fn is_at_share(&self, class: usize, has: Counts) -> bool {
        let class = &self.classes[class];
        has.used >= class.tenant_places && class.tenant_places < class.ceiling
    }

    fn occupy(&mut self, index: usize, tenant: Slot) -> Held {
        let class = &mut self.classes[index];
        self.unused_floors -= u32::from(class.used < class.floor);
        self.free -= 1;
        class.used += 1;
        class.granted += 1;
        class.peak_used = class.peak_used.max(class.used);
        self.tenants.occupy(tenant, index);
        Held { class: index as u32, tenant }
    }

    /// Gives a freed place to the waiter whose turn it is. One is enough: before the release nobody could be
    /// admitted, and it made room for one at each level.
    fn hand_on(&mut self) -> Option<Waker> {
        if self.waiters.is_idle() {
            return None;
        }
        let turns = self.classes.iter().enumerate().filter_map(|(index, class)| {
            if class.line.len() == 0 || self.stopped(index).is_some() {
                return None;
            }
            let below_share = |slot| !self.is_at_share(index, self.tenants.counts(slot, index));
            let first = self.waiters.first(&class.line, below_share)?;
            Some((class.used >= class.floor, class.priority, first.arrival, index, first))
        });
        let (.., index, first) =
            turns.min_by_key(|&(borrows, priority, arrival, ..)| (borrows, priority, arrival))?;
        // In this order, so that the tenant is not forgotten between the two.
        self.occupy(index, first.tenant);
        self.tenants.dequeue(first.tenant, index);
        self.waiters.grant(&mut self.classes[index].line, first)
    }

    fn refuse(&mut self, class: usize, denied: Denied) -> Denied {
        if let Denied::Full(full) = denied {
            self.classes[class].refused[reason_index(full.reason)] += 1;
        }
        denied
    }

    fn full(&self, index: usize, has: Counts, reason: CellReason) -> Full {
        let class = &self.classes[index];
        let (queued, queue) = (class.line.len(), class.queue);
        match reason {
            CellReason::Tenant => {
                let (limit, queue) = (class.tenant_places, class.tenant_queue);
                Full { reason, used: has.used, limit, queued: has.queued, queue }
            }
            CellReason::Class => Full { reason, used: class.used, limit: class.ceiling, queued, queue },
            CellReason::Cell => {
                let limit = self.max - self.kept_from(index);
                Full { reason, used: self.max - self.free, limit, queued, queue }
            }
        }
    }
}

impl Class {
    fn new(layout: &ClassLayout, share: TenantShare) -> Self {
        Self {
            floor: layout.floor,
            ceiling: layout.ceiling,
            queue: layout.queue,
            priority: layout.priority,
            tenant_places: share.of(layout.ceiling),
            tenant_queue: share.of(layout.queue),
            used: 0,
            line: Line::EMPTY,
            granted: 0,
            refused: [0; 3],
            timeouts: 0,
            abandoned: 0,
            peak_used: 0,
        }
    }
}

impl Held {
    fn of(wish: Wish) -> Self {
        Self { class: wish.class as u32, tenant: wish.tenant }
    }
}

/// A reason's place in [`CellReason::ALL`].
pub(crate) fn reason_index(reason: CellReason) -> usize {
    match reason {
        CellReason::Tenant => 0,
        CellReason::Class => 1,
        CellReason::Cell => 2,
    }
}

#[cfg(test)]
mod tests;
