//! The rules, word for word, over two lists: everything is counted afresh, and whoever may be granted is looked for.

use std::collections::BTreeMap;

use cofferdam_model::CellReason;

use crate::core::Moved;
use crate::layout::{ClassLayout, TenantShare};

/// Tenants that there are, by number.
pub(super) const N_TENANTS: usize = 6;

/// Compartments that those share who find no room in the table. Theirs have the numbers from [`N_TENANTS`] on.
pub(super) const N_SHARED: usize = 2;

/// A request: the numbers of its class and of its tenant's compartment, and whether it is under each of the caps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Request {
    pub(super) class: usize,
    pub(super) tenant: usize,
    pub(super) caps: [bool; 2],
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum End {
    Granted,
    Shed,
}

/// What is said of a class.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Of one that is retired, without a floor.
    pub(super) layout: ClassLayout,
    pub(super) share: TenantShare,
    /// Where its ceiling was moved to.
    pub(super) moved: Option<Moved>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) max: u32,
    pub(super) max_tenants: usize,
    /// By number, those that are retired among them.
    pub(super) classes: BTreeMap<usize, Class>,
    pub(super) caps: [u32; 2],
    pub(super) held: Vec<Request>,
    /// In order of arrival.
    pub(super) waiting: Vec<(u64, Request)>,
    pub(super) closed: bool,
}

impl Class {
    /// What one tenant may have of so many places.
    fn part(&self, places: u32) -> u32 {
        (places * u32::from(self.share.thousandths()) / 1000).max(1).min(places)
    }
}

impl Model {
    /// The most that a class may hold, and that one tenant may hold of it.
    fn ceiling(&self, class: &Class) -> (u32, u32) {
        let most = class.layout.ceiling.min(self.max);
        let moved =
            class.moved.map_or((most, most), |to| (to.ceiling.clamp(1, most), to.shared.clamp(1, most)));
        (moved.0, class.part(moved.1))
    }

    /// The compartment of a tenant that comes now: its own where it has one, or there is room for one more.
    pub(super) fn compartment(&self, tenant: usize) -> usize {
        let own = self.is_busy(tenant) || self.own() < self.max_tenants;
        if own { tenant } else { N_TENANTS + tenant % N_SHARED }
    }

    fn is_busy(&self, compartment: usize) -> bool {
        let mut all = self.held.iter().chain(self.waiting.iter().map(|(_, waiter)| waiter));
        all.any(|request| request.tenant == compartment)
    }

    /// Tenants with a compartment of their own.
    pub(super) fn own(&self) -> usize {
        (0..N_TENANTS).filter(|&tenant| self.is_busy(tenant)).count()
    }

    /// Places held, and requests waiting, in the shared compartments.
    pub(super) fn shared(&self) -> (u32, u32) {
        let is_shared = |request: &Request| request.tenant >= N_TENANTS;
        let held = self.held.iter().filter(|held| is_shared(held)).count();
        (held as u32, self.waiting.iter().filter(|(_, waiter)| is_shared(waiter)).count() as u32)
    }

    pub(super) fn used(&self, class: usize) -> u32 {
        self.held.iter().filter(|held| held.class == class).count() as u32
    }

    pub(super) fn queued(&self, class: usize) -> u32 {
        self.waiting.iter().filter(|(_, waiter)| waiter.class == class).count() as u32
    }

    /// Places held, and requests waiting, under a cap.
    pub(super) fn capped(&self, cap: usize) -> (u32, u32) {
        let held = self.held.iter().filter(|held| held.caps[cap]).count();
        (held as u32, self.waiting.iter().filter(|(_, waiter)| waiter.caps[cap]).count() as u32)
    }

    pub(super) fn unused_floors(&self) -> u32 {
        let unused =
            |(&number, class): (&usize, &Class)| class.layout.floor.saturating_sub(self.used(number));
        self.classes.iter().map(unused).sum()
    }

    /// What stops a waiter, whose caps count it already.
    pub(super) fn stops_waiter(&self, request: Request) -> Option<CellReason> {
        let class = &self.classes[&request.class];
        let (floor, (ceiling, share)) = (class.layout.floor, self.ceiling(class));
        let of_tenant = |held: &&Request| held.class == request.class && held.tenant == request.tenant;
        let tenants = self.held.iter().filter(of_tenant).count() as u32;
        let free = self.max.saturating_sub(self.held.len() as u32);
        let used = self.used(request.class);
        let kept = self.unused_floors() - floor.saturating_sub(used);
        if tenants >= share && share < ceiling {
            Some(CellReason::Tenant)
        } else if used >= ceiling && ceiling < self.max {
            Some(CellReason::Class)
        } else if free > 0 && (used < floor || free > kept) {
            None
        } else {
            Some(CellReason::Cell)
        }
    }

    pub(super) fn cap_is_full(&self, request: Request) -> bool {
        (0..2).any(|cap| {
            let (used, queued) = self.capped(cap);
            request.caps[cap] && self.caps[cap] < self.max && used + queued >= self.caps[cap]
        })
    }

    /// What stops a newcomer.
    pub(super) fn stops(&self, request: Request) -> Option<CellReason> {
        match self.stops_waiter(request) {
            Some(CellReason::Tenant) => Some(CellReason::Tenant),
            _ if self.cap_is_full(request) => Some(CellReason::Class),
            other => other,
        }
    }

    /// What keeps a newcomer that is stopped from waiting.
    pub(super) fn queue_refuses(&self, request: Request) -> Option<CellReason> {
        let class = &self.classes[&request.class];
        let (queue, share) = (class.layout.queue, class.part(class.layout.queue));
        let of_tenant = |&&(_, waiter): &&(u64, Request)| {
            waiter.class == request.class && waiter.tenant == request.tenant
        };
        let tenants = self.waiting.iter().filter(of_tenant).count() as u32;
        let reason = self.stops(request);
        match reason {
            Some(reason) if self.cap_is_full(request) => Some(reason),
            Some(_) if tenants >= share && share < queue => Some(CellReason::Tenant),
            Some(reason) if self.queued(request.class) >= queue => Some(reason),
            _ => None,
        }
    }

    fn is_shed(&self, request: Request) -> bool {
        (0..2)
            .any(|cap| request.caps[cap] && self.caps[cap] < self.max && self.capped(cap).0 >= self.caps[cap])
    }

    /// Takes the waits that ended out of the line.
    pub(super) fn hand_on(&mut self, ended: &[(u64, End)]) {
        match self.after(ended) {
            Some(after) => *self = after,
            None => panic!("{ended:?} were not in turn, or somebody is forgotten: {self:?}"),
        }
    }

    /// What is left after some waits ended, in an order in which each had its turn: of the class that comes first among
    /// those that have somebody who may be granted, and of its tenant the first in line. Then nobody is left who may be.
    fn after(&self, ended: &[(u64, End)]) -> Option<Self> {
        let may = self.waiting.iter().filter(|(_, waiter)| self.stops_waiter(*waiter).is_none());
        let Some(best) = may.map(|(_, waiter)| self.rank(waiter.class)).min() else {
            return ended.is_empty().then(|| self.clone());
        };
        ended.iter().enumerate().find_map(|(at, &(arrival, end))| {
            let place = self.waiting.iter().position(|(other, _)| *other == arrival)?;
            let (_, request) = self.waiting[place];
            let is_first = self.waiting[..place]
                .iter()
                .all(|(_, other)| (other.class, other.tenant) != (request.class, request.tenant));
            let in_turn =
                self.stops_waiter(request).is_none() && self.rank(request.class) == best && is_first;
            if !in_turn || self.is_shed(request) != (end == End::Shed) {
                return None;
            }
            let mut after = self.clone();
            after.waiting.remove(place);
            if end == End::Granted {
                after.held.push(request);
            }
            after.after(&[&ended[..at], &ended[at + 1..]].concat())
        })
    }

    fn rank(&self, class: usize) -> (bool, u8) {
        let ClassLayout { floor, priority, .. } = self.classes[&class].layout;
        (self.used(class) >= floor, priority)
    }
}
