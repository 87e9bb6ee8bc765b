//! Requests that wait: a queue for each class in order of arrival, in one slab. It knows no limits and no clock.
//!
//! A waiter is a node of its class's list until it is granted or cancelled; it then keeps its node, with the
//! outcome, until whoever waits collects it. Every operation but the search for an eligible waiter is O(1).

use std::task::Waker;

use tokio::time::Instant;

use crate::tenants::Slot;

/// No node.
const NONE: u32 = u32::MAX;

/// The one claim on a waiter's node. It is not `Clone`: who holds it collects the outcome, once.
#[derive(Debug)]
pub(crate) struct Ticket(u32);

/// What a waiter is in line for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) class: usize,
    pub(crate) tenant: Slot,
    pub(crate) since: Instant,
}

/// How far a waiter has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// In line, and whom to wake.
    Waiting(Waker),
    /// It has been given its place.
    Granted,
    /// The compartments were closed.
    Cancelled,
}

/// A node in line that may be granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    node: u32,
    pub(crate) tenant: Slot,
    /// Its turn among all classes: lower came earlier.
    pub(crate) arrival: u64,
}

#[derive(Default)]
pub(crate) struct Waiters {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    arrivals: u64,
}

/// A class's line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    head: u32,
    tail: u32,
    len: u32,
}

struct Node {
    wish: Wish,
    arrival: u64,
    stage: Stage,
    previous: u32,
    next: u32,
}

impl Line {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

impl Waiters {
    /// Joins the end of a line. Nobody is woken until the ticket is [watched](Self::watch).
    pub(crate) fn join(&mut self, line: &mut Line, wish: Wish) -> Ticket {
        let stage = Stage::Waiting(Waker::noop().clone());
        let node = Node { wish, arrival: self.arrivals, stage, previous: line.tail, next: NONE };
        self.arrivals += 1;
        let at = match self.vacant.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                // Lines are bounded by `u32` counts, far from the end of memory.
                (self.nodes.len() - 1) as u32
            }
        };
        match line.tail {
            NONE => line.head = at,
            tail => self.nodes[tail as usize].next = at,
        }
        line.tail = at;
        line.len += 1;
        Ticket(at)
    }

    /// The first of a line whose tenant may be given a place.
    pub(crate) fn first(&self, line: &Line, eligible: impl Fn(Slot) -> bool) -> Option<Candidate> {
        let mut at = line.head;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if eligible(node.wish.tenant) {
                return Some(Candidate { node: at, tenant: node.wish.tenant, arrival: node.arrival });
            }
            at = node.next;
        }
        None
    }

    /// When the head of a line joined it.
    pub(crate) fn oldest(&self, line: &Line) -> Option<Instant> {
        self.nodes.get(line.head as usize).map(|node| node.wish.since)
    }

    /// Grants a candidate: out of the line; whom to wake.
    pub(crate) fn grant(&mut self, line: &mut Line, candidate: Candidate) -> Option<Waker> {
        self.leave(line, candidate.node, Stage::Granted).waker()
    }

    /// Cancels the head of a line: whom to wake, and its tenant; `None` from an empty line.
    pub(crate) fn cancel_first(&mut self, line: &mut Line) -> Option<(Option<Waker>, Slot)> {
        let at = line.head;
        let tenant = self.nodes.get(at as usize)?.wish.tenant;
        Some((self.leave(line, at, Stage::Cancelled).waker(), tenant))
    }

    pub(crate) fn wish(&self, ticket: &Ticket) -> Wish {
        self.nodes[ticket.0 as usize].wish
    }

    /// Whether the waiter has an outcome. If not, `waker` and the one that was kept change places: the caller drops
    /// the old one when it no longer holds the lock, since that may run code of anybody's.
    pub(crate) fn watch(&mut self, ticket: &Ticket, waker: &mut Waker) -> bool {
        match &mut self.nodes[ticket.0 as usize].stage {
            Stage::Waiting(kept) => {
                std::mem::swap(kept, waker);
                false
            }
            Stage::Granted | Stage::Cancelled => true,
        }
    }

    /// Gives a ticket back, for the outcome. A waiter that is still in line leaves it and was [`Stage::Waiting`].
    pub(crate) fn collect(&mut self, line: &mut Line, ticket: Ticket) -> Stage {
        let at = ticket.0;
        self.vacant.push(at);
        match self.nodes[at as usize].stage {
            Stage::Granted => Stage::Granted,
            Stage::Cancelled => Stage::Cancelled,
            Stage::Waiting(_) => self.leave(line, at, Stage::Cancelled),
        }
    }

    /// Whether nobody is in line, nor has an outcome to collect.
    pub(crate) fn is_idle(&self) -> bool {
        self.nodes.len() == self.vacant.len()
    }

    /// Takes a node out of its line; the stage that it was in.
    fn leave(&mut self, line: &mut Line, at: u32, stage: Stage) -> Stage {
        let node = &mut self.nodes[at as usize];
        let (previous, next) = (node.previous, node.next);
        let was = std::mem::replace(&mut node.stage, stage);
        match previous {
            NONE => line.head = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => line.tail = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        line.len -= 1;
        was
    }
}

impl Stage {
    /// Whom to wake.
    fn waker(self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => Some(waker),
            Self::Granted | Self::Cancelled => None,
        }
    }
}
