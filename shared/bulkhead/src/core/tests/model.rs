//! The rules, word for word, over two lists: everything is counted afresh, and whoever may be granted is looked for.

use std::collections::BTreeMap;

use cofferdam_model::CellReason;

use crate::layout::{ClassLayout, TenantShare};

/// A request: the numbers of its class and its tenant, and whether it is under each of the caps.
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

/// What one tenant may have of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    places: u32,
    queue: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) max: u32,
    /// By number. Classes that are retired have no floor, and keep their shares.
    pub(super) classes: BTreeMap<usize, ClassLayout>,
    pub(super) shares: BTreeMap<usize, Share>,
    pub(super) caps: [u32; 2],
    pub(super) held: Vec<Request>,
    /// In order of arrival.
    pub(super) waiting: Vec<(u64, Request)>,
}

impl Share {
    pub(super) fn new(class: &ClassLayout, share: TenantShare) -> Self {
        let of = |places: u32| (places * u32::from(share.thousandths()) / 1000).max(1).min(places);
        Self { places: of(class.ceiling), queue: of(class.queue) }
    }
}

impl Model {
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
        self.classes.iter().map(|(&number, class)| class.floor.saturating_sub(self.used(number))).sum()
    }

    /// What stops a waiter, whose caps count it already.
    pub(super) fn stops_waiter(&self, request: Request) -> Option<CellReason> {
        let class = &self.classes[&request.class];
        let share = self.shares[&request.class].places;
        let of_tenant = |held: &&Request| held.class == request.class && held.tenant == request.tenant;
        let tenants = self.held.iter().filter(of_tenant).count() as u32;
        let free = self.max.saturating_sub(self.held.len() as u32);
        let used = self.used(request.class);
        let kept = self.unused_floors() - class.floor.saturating_sub(used);
        if tenants >= share && share < class.ceiling {
            Some(CellReason::Tenant)
        } else if used >= class.ceiling && class.ceiling < self.max {
            Some(CellReason::Class)
        } else if free > 0 && (used < class.floor || free > kept) {
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
        let share = self.shares[&request.class].queue;
        let of_tenant = |&&(_, waiter): &&(u64, Request)| {
            waiter.class == request.class && waiter.tenant == request.tenant
        };
        let tenants = self.waiting.iter().filter(of_tenant).count() as u32;
        let reason = self.stops(request);
        match reason {
            Some(reason) if self.cap_is_full(request) => Some(reason),
            Some(_) if tenants >= share && share < class.queue => Some(CellReason::Tenant),
            Some(reason) if self.queued(request.class) >= class.queue => Some(reason),
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
        (self.used(class) >= self.classes[&class].floor, self.classes[&class].priority)
    }
}
