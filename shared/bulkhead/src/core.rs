//! The rules of admission over plain counts: who gets a place, who waits, who is next. It knows no runtime, no lock
//! and no clock, so that every rule can be tested by calls in order.
//!
//! Here are the counts, admission and release; `queue` has who waits, and whose turn it is; `change` has what happens
//! when the layout changes or everything closes.

mod change;
mod queue;

use std::task::Waker;
use std::time::Duration;

use cofferdam_model::{CellReason, ClassName};
use tokio::time::Instant;

use crate::caps::{Cap, CapIndex, CapsOf};
use crate::claim::Claim;
use crate::estimate::{Ageing, Hold};
use crate::indices::Indices;
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::list::{List, Slab};
use crate::refusal::Refused;
use crate::rounds::{Flow, Rounds};
use crate::tenants::{Counts, Looked, Slot, Tenants};
use crate::waiters::{Ticket, Waiters};

/// The counts of a cell.
pub(crate) struct Core {
    /// The cell's places. After it was lowered, more may be held for a while.
    pub(crate) max: u32,
    /// Places held.
    pub(crate) used: u32,
    /// The sum over all classes of floor - used, where that is positive; kept by every change of a class's `used`.
    pub(crate) unused_floors: u32,
    /// By index. Those that the layout has no more are retired, until others use their indices.
    pub(crate) classes: Vec<Class>,
    /// By index, as the classes.
    pub(crate) caps: Vec<Cap>,
    /// The index of each of the layout's classes and caps.
    pub(crate) indices: Indices,
    pub(crate) tenants: Tenants,
    pub(crate) waiters: Waiters,
    flows: Slab<Flow>,
    /// Who waits, in all classes.
    waiting: u32,
    hold: Hold,
    /// How often the layout was changed.
    pub(crate) changes: u64,
    pub(crate) closed: bool,
}

/// The counts of a class.
pub(crate) struct Class {
    pub(crate) name: ClassName,
    pub(crate) floor: u32,
    pub(crate) ceiling: u32,
    /// What the layout says, and what that was moved to since.
    ceiling_of_layout: u32,
    moved: Option<Moved>,
    pub(crate) queue: u32,
    pub(crate) max_wait: Duration,
    pub(crate) priority: u8,
    share: TenantShare,
    tenant_places: u32,
    tenant_queue: u32,
    pub(crate) used: u32,
    /// Who waits, in order of arrival.
    pub(crate) line: List,
    /// Whose turn it is among them.
    rounds: Rounds,
    pub(crate) hold: Hold,
    ageing: Ageing,
    pub(crate) granted: u64,
    /// By reason, in the order of [`CellReason::ALL`].
    pub(crate) refused: [u64; 3],
    pub(crate) timeouts: u64,
    pub(crate) hopeless: u64,
    pub(crate) abandoned: u64,
    pub(crate) peak_used: u32,
    /// The change that took it out of the layout.
    retired: Option<u64>,
}

/// Where a ceiling was moved to below its layout's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) ceiling: u32,
    /// What a tenant's share is reckoned of.
    pub(crate) shared: u32,
}

/// A place at all levels. Whoever has it calls [`Core::release`] with it once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) class: u32,
    tenant: Slot,
    caps: CapsOf,
    /// The place-time that its tenant's sub-queue paid; 0 for a place that nobody waited for.
    paid_us: u32,
    /// Whether it is to be measured how long it is held: always where it was paid for, else now and then.
    pub(crate) is_measured: bool,
    /// Since when it is held, where that is measured.
    pub(crate) since: Option<Instant>,
}

/// Whom to wake when the lock is let go of: nearly always one at most.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    first: Option<Waker>,
    more: Vec<Waker>,
}

/// Why there was no place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Denied {
    Full(Stop),
    Closed,
}

/// What is full, and what the tenant has of the class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) reason: CellReason,
    cap: Option<CapIndex>,
    has: Counts,
}

/// What became of a request that may wait.
#[derive(Debug)]
pub(crate) enum Entered {
    Admitted(Held),
    /// It waits, until then at most.
    Waiting(Ticket, Instant),
    Refused(Refused),
}

/// How full the compartment is that is full.
#[derive(Debug, Clone, Copy)]
struct Fill {
    used: u32,
    limit: u32,
    queued: u32,
    queue: u32,
}

impl Core {
    pub(crate) fn new(layout: &Layout) -> Self {
        let class = |class| Class::new(class, layout.tenant_share());
        let classes: Vec<_> = layout.classes().iter().map(class).collect();
        let caps: Vec<_> = layout.caps().iter().map(Cap::new).collect();
        Self {
            max: layout.max_in_flight(),
            used: 0,
            unused_floors: classes.iter().map(|class| class.floor).sum(),
            tenants: Tenants::new(layout.max_tenants(), classes.len()),
            indices: Indices { classes: (0..classes.len()).collect(), caps: (0..caps.len()).collect() },
            waiters: Waiters::default(),
            flows: Slab::default(),
            waiting: 0,
            hold: Hold::NOTHING,
            changes: 0,
            closed: false,
            classes,
            caps,
        }
    }

    /// A place now. What stops it is told, but not counted as a refusal.
    pub(crate) fn admit(&mut self, claim: &Claim<'_>) -> Result<Held, Denied> {
        let looked = self.tenants.look(claim.tenant);
        self.admit_there(claim, looked)
    }

    /// The same, where the tenant was looked for.
    fn admit_there(&mut self, claim: &Claim<'_>, looked: Looked) -> Result<Held, Denied> {
        let (class, has) = (claim.class, self.tenants.seen(looked, claim.class));
        if let Some(denied) = self.denied(claim, has) {
            return Err(denied);
        }
        let slot = self.tenants.enter(claim.tenant, looked);
        self.occupy(class, slot, claim.caps);
        let is_measured = self.classes[class].is_measured_now();
        Ok(Held { class: class as u32, tenant: slot, caps: claim.caps, paid_us: 0, is_measured, since: None })
    }

    /// What stops a claim, if anything does: the narrowest of it.
    fn denied(&self, claim: &Claim<'_>, has: Counts) -> Option<Denied> {
        if self.closed {
            return Some(Denied::Closed);
        }
        if self.is_at_share(claim.class, has) {
            return Some(Denied::Full(Stop { reason: CellReason::Tenant, cap: None, has }));
        }
        let cap = self.full_cap_of(claim);
        let reason = cap.map(|_| CellReason::Class).or_else(|| self.stopped(claim.class))?;
        Some(Denied::Full(Stop { reason, cap, has }))
    }

    /// A place now, or a refusal.
    pub(crate) fn admit_or_refuse(&mut self, claim: &Claim<'_>) -> Result<Held, Refused> {
        self.admit(claim).map_err(|denied| self.refuse(claim.class, denied))
    }

    /// Gives a place back; the caller [hands it on](Self::hand_on). `held_us` is how long it was held, where that was
    /// measured.
    pub(crate) fn release(&mut self, held: Held, held_us: Option<u32>) {
        if let Some(us) = held_us {
            let index = held.class as usize;
            self.hold.measure(us);
            self.classes[index].hold.measure(us);
            self.tenants.counts_mut(held.tenant, index).hold.measure(us);
        }
        self.give_back(held, held_us);
    }

    fn give_back(&mut self, held: Held, held_us: Option<u32>) {
        let index = held.class as usize;
        self.count_down(index);
        for cap in held.caps.iter() {
            self.caps[cap.get()].used -= 1;
        }
        self.release_flow(held, held_us);
        self.tenants.release(held.tenant, index);
    }

    /// Of the class and the cell.
    pub(crate) fn count_down(&mut self, index: usize) {
        self.used -= 1;
        let class = &mut self.classes[index];
        class.used -= 1;
        self.unused_floors += u32::from(class.used < class.floor);
    }

    /// Whether somebody waits, so that a freed place has to be handed on.
    pub(crate) fn is_contended(&self) -> bool {
        self.waiting > 0
    }

    /// Places that nobody holds.
    pub(crate) fn free(&self) -> u32 {
        self.max.saturating_sub(self.used)
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
        let free = self.free();
        let has_room = free > 0 && (class.used < class.floor || free > self.kept_from(index));
        (!has_room).then_some(CellReason::Cell)
    }

    /// Whether a tenant holds its share of a class. A share that is the whole class is no limit beside it.
    fn is_at_share(&self, class: usize, has: Counts) -> bool {
        let class = &self.classes[class];
        has.used >= class.tenant_places && class.tenant_places < class.ceiling
    }

    /// The cap that stops a newcomer, if one does.
    fn full_cap_of(&self, claim: &Claim<'_>) -> Option<CapIndex> {
        claim.caps.iter().find(|cap| self.caps[cap.get()].is_full(self.max))
    }

    fn occupy(&mut self, index: usize, tenant: Slot, caps: CapsOf) {
        let class = &mut self.classes[index];
        self.unused_floors -= u32::from(class.used < class.floor);
        self.used += 1;
        class.used += 1;
        class.granted += 1;
        class.peak_used = class.peak_used.max(class.used);
        for cap in caps.iter() {
            self.caps[cap.get()].occupy();
        }
        self.tenants.occupy(tenant, index);
    }

    /// Counts a refusal on entry, and says it in words.
    pub(crate) fn refuse(&mut self, class: usize, denied: Denied) -> Refused {
        self.refuse_after(class, denied, Duration::ZERO, Duration::ZERO)
    }

    #[cold]
    fn refuse_after(
        &mut self,
        class: usize,
        denied: Denied,
        waited: Duration,
        expected: Duration,
    ) -> Refused {
        let Denied::Full(stop) = denied else { return Refused::ShutDown };
        let Fill { used, limit, queued, queue } = self.fill(class, stop);
        let Stop { reason, cap, .. } = stop;
        self.classes[class].refused[reason_index(reason)] += 1;
        let cap = cap.map(|cap| {
            let cap = &mut self.caps[cap.get()];
            cap.refused += 1;
            cap.name.clone()
        });
        let class = self.classes[class].name.clone();
        Refused::Full { reason, class, cap, used, limit, queued, queue, waited, expected }
    }

    fn fill(&self, index: usize, stop: Stop) -> Fill {
        if let Some(cap) = stop.cap {
            let cap = &self.caps[cap.get()];
            return Fill { used: cap.used, limit: cap.limit, queued: cap.queued, queue: 0 };
        }
        let class = &self.classes[index];
        let (queued, queue) = (class.line.len(), class.queue);
        match stop.reason {
            CellReason::Tenant => {
                let (limit, queue) = (class.tenant_places, class.tenant_queue);
                Fill { used: stop.has.used, limit, queued: stop.has.queued, queue }
            }
            CellReason::Class => Fill { used: class.used, limit: class.ceiling, queued, queue },
            CellReason::Cell => {
                let limit = self.max.saturating_sub(self.kept_from(index));
                Fill { used: self.used, limit, queued, queue }
            }
        }
    }
}

impl Class {
    fn new(layout: &ClassLayout, share: TenantShare) -> Self {
        let mut class = Self {
            name: layout.name.clone(),
            floor: 0,
            ceiling: 0,
            ceiling_of_layout: 0,
            moved: None,
            queue: 0,
            max_wait: Duration::ZERO,
            priority: 0,
            share,
            tenant_places: 0,
            tenant_queue: 0,
            used: 0,
            line: List::EMPTY,
            rounds: Rounds::default(),
            hold: Hold::NOTHING,
            ageing: Ageing::default(),
            granted: 0,
            refused: [0; 3],
            timeouts: 0,
            hopeless: 0,
            abandoned: 0,
            peak_used: 0,
            retired: None,
        };
        class.change(layout, share);
        class
    }

    /// What a round of the class's queue allows for each unit of weight: what a request costs on average.
    fn quantum_us(&self) -> u32 {
        self.hold.or(Hold::NOTHING)
    }

    /// One place of sixteen is measured, spread by a multiplicative hash, so that no rhythm of the requests decides
    /// which; and all until one was.
    fn is_measured_now(&self) -> bool {
        self.hold.known().is_none() || self.granted.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 == 0
    }
}

impl Woken {
    fn push(&mut self, waker: Option<Waker>) {
        match (&self.first, waker) {
            (None, waker) => self.first = waker,
            (Some(_), waker) => self.more.extend(waker),
        }
    }

    /// Wakes them all.
    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.more).for_each(Waker::wake);
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
