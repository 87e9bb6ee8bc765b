//! The core against a naive model that counts everything afresh and looks for whoever may be granted.

use std::task::Waker;
use std::time::Duration;

use cofferdam_model::{Alphabet, CellReason, ClassName, Saturation, TenantId};
use proptest::prelude::*;
use tokio::time::Instant;

use super::{Core, Denied, Entered, Held};
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::waiters::Ticket;

const N_TENANTS: usize = 4;

/// A step; positions count modulo what there is.
#[derive(Debug, Clone)]
enum Step {
    Try { class: usize, tenant: usize },
    Enter { class: usize, tenant: usize },
    Release(usize),
    Collect(usize),
    Abandon(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Request {
    class: usize,
    tenant: usize,
}

/// The rules, word for word, over two lists.
struct Model {
    layout: Layout,
    held: Vec<Request>,
    /// In order of arrival.
    waiting: Vec<(u64, Request)>,
}

impl Model {
    fn used(&self, class: usize) -> u32 {
        self.held.iter().filter(|held| held.class == class).count() as u32
    }

    fn queued(&self, class: usize) -> u32 {
        self.waiting.iter().filter(|(_, waiter)| waiter.class == class).count() as u32
    }

    fn stopped_by(&self, request: Request) -> Option<CellReason> {
        let class = &self.layout.classes()[request.class];
        let share = (class.ceiling * u32::from(self.layout.tenant_share().thousandths()) / 1000).max(1);
        let tenants = self.held.iter().filter(|&&held| held == request).count() as u32;
        let free = self.layout.max_in_flight() - self.held.len() as u32;
        let others = (0..self.layout.classes().len()).filter(|&other| other != request.class);
        let kept: u32 = others.map(|o| self.layout.classes()[o].floor.saturating_sub(self.used(o))).sum();
        let used = self.used(request.class);
        if tenants >= share && share < class.ceiling {
            Some(CellReason::Tenant)
        } else if used >= class.ceiling && class.ceiling < self.layout.max_in_flight() {
            Some(CellReason::Class)
        } else if free > 0 && (used < class.floor || free > kept) {
            None
        } else {
            Some(CellReason::Cell)
        }
    }

    fn queue_refuses(&self, request: Request) -> Option<CellReason> {
        let class = &self.layout.classes()[request.class];
        let share = (class.queue * u32::from(self.layout.tenant_share().thousandths()) / 1000).max(1);
        let tenants = self.waiting.iter().filter(|(_, waiter)| *waiter == request).count() as u32;
        match self.stopped_by(request) {
            Some(_) if tenants >= share && share < class.queue => Some(CellReason::Tenant),
            Some(reason) if self.queued(request.class) >= class.queue => Some(reason),
            _ => None,
        }
    }

    /// Grants whoever may be granted, in turn, until nobody may; how many were.
    fn hand_on(&mut self) -> usize {
        let mut granted = 0;
        loop {
            let eligible = self.waiting.iter().filter(|(_, waiter)| self.stopped_by(*waiter).is_none());
            let rank = |&&(arrival, waiter): &&(u64, Request)| {
                let class = &self.layout.classes()[waiter.class];
                (self.used(waiter.class) >= class.floor, class.priority, arrival)
            };
            let Some(&(arrival, waiter)) = eligible.min_by_key(rank) else { return granted };
            self.waiting.retain(|&(other, _)| other != arrival);
            self.held.push(waiter);
            granted += 1;
        }
    }
}

/// The core and the model side by side.
struct Pair {
    core: Core,
    model: Model,
    tenants: Vec<TenantId>,
    places: Vec<(Held, Request)>,
    tickets: Vec<(Ticket, u64, Request)>,
    arrivals: u64,
}

impl Pair {
    fn new(layout: Layout) -> Self {
        let name = |n| TenantId::parse(format!("t{n}").as_bytes(), &Alphabet::default()).unwrap();
        Self {
            core: Core::new(&layout),
            model: Model { layout, held: Vec::new(), waiting: Vec::new() },
            tenants: (0..N_TENANTS).map(name).collect(),
            places: Vec::new(),
            tickets: Vec::new(),
            arrivals: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Try { class, tenant } => self.try_(Request { class: class % self.n_classes(), tenant }),
            Step::Enter { class, tenant } => self.enter(Request { class: class % self.n_classes(), tenant }),
            Step::Release(at) if !self.places.is_empty() => {
                let (held, request) = self.places.swap_remove(at % self.places.len());
                let woken = self.core.release(held).is_some();
                self.release(request, woken);
            }
            Step::Collect(at) if !self.tickets.is_empty() => {
                let (ticket, arrival, request) = self.tickets.swap_remove(at % self.tickets.len());
                self.collect(ticket, arrival, request);
            }
            Step::Abandon(at) if !self.tickets.is_empty() => {
                let (ticket, arrival, request) = self.tickets.swap_remove(at % self.tickets.len());
                let waiting = self.leave(arrival);
                let woken = self.core.abandon(ticket).is_some();
                if waiting { assert!(!woken) } else { self.release(request, woken) }
            }
            Step::Release(_) | Step::Collect(_) | Step::Abandon(_) => {}
        }
        self.agree();
    }

    fn n_classes(&self) -> usize {
        self.model.layout.classes().len()
    }

    /// Takes a waiter out of the model; false if it was granted.
    fn leave(&mut self, arrival: u64) -> bool {
        let before = self.model.waiting.len();
        self.model.waiting.retain(|&(other, _)| other != arrival);
        self.model.waiting.len() < before
    }

    fn release(&mut self, request: Request, woken: bool) {
        let at = self.model.held.iter().position(|&held| held == request).unwrap();
        self.model.held.swap_remove(at);
        assert_eq!(self.model.hand_on(), usize::from(woken), "one freed place admits at most one");
    }

    fn try_(&mut self, request: Request) {
        let outcome = self.core.admit_or_refuse(request.class, &self.tenants[request.tenant]);
        assert_eq!(reason(&outcome), self.model.stopped_by(request));
        if let Ok(held) = outcome {
            self.model.held.push(request);
            self.places.push((held, request));
        }
    }

    fn enter(&mut self, request: Request) {
        let entered = self.core.enter(request.class, &self.tenants[request.tenant], Instant::now());
        match entered {
            Entered::Admitted(held) => {
                assert_eq!(self.model.stopped_by(request), None);
                self.model.held.push(request);
                self.places.push((held, request));
            }
            Entered::Waiting(ticket) => {
                assert!(
                    self.model.stopped_by(request).is_some() && self.model.queue_refuses(request).is_none()
                );
                self.model.waiting.push((self.arrivals, request));
                self.tickets.push((ticket, self.arrivals, request));
                self.arrivals += 1;
            }
            Entered::Denied(denied) => {
                assert_eq!(reason::<Held>(&Err(denied)), self.model.queue_refuses(request));
            }
        }
    }

    fn collect(&mut self, ticket: Ticket, arrival: u64, request: Request) {
        let outcome = self.core.collect(ticket);
        if self.leave(arrival) {
            assert_eq!(reason(&outcome), self.model.stopped_by(request));
        } else {
            self.places.push((outcome.unwrap(), request));
        }
    }

    fn agree(&mut self) {
        let (core, model) = (&mut self.core, &self.model);
        for (ticket, arrival, _) in &self.tickets {
            let granted = model.waiting.iter().all(|(waiting, _)| waiting != arrival);
            assert_eq!(core.watch(ticket, &mut Waker::noop().clone()), granted);
        }
        assert_eq!(core.max - core.free, model.held.len() as u32);
        let mut unused = 0;
        let saturations = core.saturations();
        for (index, class) in model.layout.classes().iter().enumerate() {
            assert_eq!(core.classes[index].used, model.used(index));
            assert_eq!(core.classes[index].line.len(), model.queued(index));
            assert!(
                core.classes[index].used <= class.ceiling && core.classes[index].line.len() <= class.queue
            );
            unused += class.floor.saturating_sub(model.used(index));
            // A tenant that holds nothing is the one that only class and cell can stop.
            let stopped = model.stopped_by(Request { class: index, tenant: N_TENANTS });
            assert_eq!(saturations.classes()[index] == Saturation::FULL, stopped.is_some());
        }
        assert_eq!(core.unused_floors, unused);
        assert!(core.free >= unused, "every unused floor has its places");
        let busy = |tenant: &usize| {
            let mine = |request: &Request| request.tenant == *tenant;
            model.held.iter().any(mine) || model.waiting.iter().any(|(_, waiter)| mine(waiter))
        };
        assert_eq!(core.tenants.len(), (0..N_TENANTS).filter(busy).count());
    }
}

fn reason<T>(outcome: &Result<T, Denied>) -> Option<CellReason> {
    match outcome {
        Ok(_) => None,
        Err(Denied::Full(full)) => Some(full.reason),
        Err(Denied::Closed) => panic!("nobody closed"),
    }
}

fn class(index: usize) -> impl Strategy<Value = ClassLayout> {
    (0..3u8, 0..3u32, 1..5u32, 0..5u32).prop_map(move |(priority, floor, more, queue)| {
        let name = ClassName::parse(&format!("c{index}")).unwrap();
        let max_wait = Duration::from_secs(1);
        ClassLayout { name, priority, floor, ceiling: (floor + more).min(6), queue, max_wait }
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    let classes = (class(0), class(1), class(2));
    (6..11u32, prop::sample::select(vec![250, 500, 1000]), classes).prop_map(|(max, share, (a, b, c))| {
        let share = TenantShare::from_thousandths(share).unwrap();
        Layout::new(max, share, 100, vec![a, b, c]).unwrap()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let request = || (0..3usize, 0..N_TENANTS);
    prop_oneof![
        2 => request().prop_map(|(class, tenant)| Step::Try { class, tenant }),
        6 => request().prop_map(|(class, tenant)| Step::Enter { class, tenant }),
        4 => any::<usize>().prop_map(Step::Release),
        2 => any::<usize>().prop_map(Step::Collect),
        1 => any::<usize>().prop_map(Step::Abandon),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_core_does_what_the_rules_say(layout in layout(), steps in prop::collection::vec(step(), 1..200)) {
        let mut pair = Pair::new(layout);
        steps.into_iter().for_each(|step| pair.step(step));
        while let Some((ticket, arrival, request)) = pair.tickets.pop() {
            pair.collect(ticket, arrival, request);
        }
        while !pair.places.is_empty() {
            pair.step(Step::Release(0));
        }
        assert_eq!((pair.core.free, pair.core.tenants.len()), (pair.core.max, 0));
        assert!(pair.core.waiters.is_idle());
    }
}
