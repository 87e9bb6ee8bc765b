//! Requests that wait: each in its tenant's sub-queue and in its class's order of arrival, in one slab. It knows no
//! limits and no clock.
//!
//! A waiter is in both lists until it is granted, shed or cancelled; it then keeps its node, with the outcome, until
//! whoever waits collects it. Every operation is O(1).

use std::task::Waker;

use tokio::time::Instant;

use crate::caps::{CapIndex, CapsOf};
use crate::list::{Link, List, Slab};
use crate::tenants::Slot;

/// The one claim on a waiter's node. It is not `Clone`: who holds it collects the outcome, once.
#[derive(Debug)]
pub(crate) struct Ticket(u32);

/// What a waiter is in line for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) class: usize,
    pub(crate) tenant: Slot,
    /// The number of the tenant's sub-queue.
    pub(crate) flow: u32,
    pub(crate) caps: CapsOf,
    pub(crate) since: Instant,
}

/// What became of a waiter.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It is in line; and whom to wake.
    Waiting(Waker),
    /// It has had a place since then, and paid for that much time of it.
    Granted { since: Instant, paid_us: u32 },
    /// In its turn a cap was full, which has been lowered since it came.
    Shed(CapIndex),
    /// The compartments were closed.
    Cancelled,
}

#[derive(Default)]
pub(crate) struct Waiters {
    nodes: Slab<Node>,
    arrivals: u64,
}

struct Node {
    wish: Wish,
    /// Its turn among all classes: lower came earlier.
    arrival: u64,
    stage: Stage,
    in_flow: Link,
    in_class: Link,
}

impl Waiters {
    /// Joins the ends of both lines. `waker` is woken by the outcome, until the ticket is [watched](Self::watch) by another.
    pub(crate) fn join(&mut self, flow: &mut List, class: &mut List, wish: Wish, waker: Waker) -> Ticket {
        let (stage, arrival) = (Stage::Waiting(waker), self.arrivals);
        self.arrivals += 1;
        let node = Node { wish, arrival, stage, in_flow: Link::NONE, in_class: Link::NONE };
        let at = self.nodes.insert(node);
        flow.push(&mut self.nodes, at, |node| &mut node.in_flow);
        class.push(&mut self.nodes, at, |node| &mut node.in_class);
        Ticket(at)
    }

    /// Takes a waiter out of its lines for an outcome: whom to wake.
    pub(crate) fn decide(
        &mut self,
        flow: &mut List,
        class: &mut List,
        at: u32,
        stage: Stage,
    ) -> Option<Waker> {
        flow.remove(&mut self.nodes, at, |node| &mut node.in_flow);
        class.remove(&mut self.nodes, at, |node| &mut node.in_class);
        match std::mem::replace(&mut self.nodes.get_mut(at).stage, stage) {
            Stage::Waiting(waker) => Some(waker),
            Stage::Granted { .. } | Stage::Shed(_) | Stage::Cancelled => None,
        }
    }

    /// What a waiter of a line wants.
    pub(crate) fn wish_of(&self, at: u32) -> Wish {
        self.nodes.get(at).wish
    }

    /// A waiter's turn among all classes.
    pub(crate) fn arrival(&self, at: u32) -> u64 {
        self.nodes.get(at).arrival
    }

    /// Who came next to the same class.
    pub(crate) fn next_in_class(&self, at: u32) -> Option<u32> {
        self.nodes.get(at).in_class.next()
    }

    pub(crate) fn wish(&self, ticket: &Ticket) -> Wish {
        self.wish_of(ticket.0)
    }

    /// The number of a ticket's waiter.
    pub(crate) fn number(&self, ticket: &Ticket) -> u32 {
        ticket.0
    }

    /// Has `waker` woken by a waiter's outcome, and gives back which was to be before; or, as an error, `waker` itself where there
    /// is an outcome. Either is for the caller to drop when it no longer holds the lock, since that may run code of anybody's.
    pub(crate) fn watch(&mut self, ticket: &Ticket, waker: Waker) -> Result<Waker, Waker> {
        match &mut self.nodes.get_mut(ticket.0).stage {
            Stage::Waiting(kept) => Ok(std::mem::replace(kept, waker)),
            Stage::Granted { .. } | Stage::Shed(_) | Stage::Cancelled => Err(waker),
        }
    }

    /// Whether a waiter is in line still.
    pub(crate) fn is_in_line(&self, ticket: &Ticket) -> bool {
        matches!(self.nodes.get(ticket.0).stage, Stage::Waiting(_))
    }

    /// Gives the ticket of a waiter that left its lines back, for the outcome.
    pub(crate) fn collect(&mut self, ticket: Ticket) -> Stage {
        self.nodes.vacate(ticket.0);
        std::mem::replace(&mut self.nodes.get_mut(ticket.0).stage, Stage::Cancelled)
    }
}

#[cfg(test)]
impl Waiters {
    /// How far a waiter has come.
    pub(crate) fn stage(&self, ticket: &Ticket) -> &Stage {
        &self.nodes.get(ticket.0).stage
    }

    /// Whether nobody is in line, nor has an outcome to collect.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
