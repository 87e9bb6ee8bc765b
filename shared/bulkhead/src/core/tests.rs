//! The core against a naive model, a million random steps long: requests of tenants for whom the table has room and of others,
//! releases, waits that end in every way, ceilings that move, changes of the layout, and the end.

mod model;
mod random;

use std::task::Waker;
use std::time::Duration;

use cofferdam_model::{CellReason, Saturation, TenantId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use self::model::{Class, End, Model, N_TENANTS, Request};
use self::random::{N_CLASSES, class_name, layout};
use super::{Core, Denied, Entered, Held, Moved, Woken};
use crate::caps::CapsOf;
use crate::claim::Claim;
use crate::layout::{ClassLayout, Layout};
use crate::refusal::Refused;
use crate::waiters::{Stage, Ticket};

const RUNS: u64 = 5000;
const STEPS: usize = 200;

/// The core and the model side by side.
struct Pair {
    core: Core,
    model: Model,
    tenants: Vec<TenantId>,
    places: Vec<(Held, Request)>,
    tickets: Vec<(Ticket, u64, Request)>,
    arrivals: u64,
    now: Instant,
    random: StdRng,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let layout = layout(&mut random);
        let core = Core::new(&layout);
        let mut pair = Self {
            tenants: random::tenants(&core.tenants),
            core,
            model: Model::default(),
            places: Vec::new(),
            tickets: Vec::new(),
            arrivals: 0,
            now: Instant::now(),
            random,
        };
        pair.take_on(&layout);
        pair
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.random_range(0..20));
        match self.random.random_range(0..1000) {
            0..100 => self.try_(),
            100..490 => self.enter(),
            490..760 => self.release(),
            760..840 => self.collect(),
            840..945 => self.abandon(),
            945..970 => self.change(),
            970..999 => self.move_ceiling(),
            _ => self.close(),
        }
        // Whose turn it was is looked at each time; everything, often enough.
        if self.random.random_bool(0.3) {
            self.agree();
        }
    }

    /// A class that the core knows, maybe by a layout that is over.
    fn class(&mut self) -> usize {
        let known: Vec<_> = (0..N_CLASSES).filter(|&number| self.index(number).is_some()).collect();
        known[self.random.random_range(0..known.len())]
    }

    /// A random request, and the tenant whose it is.
    fn request(&mut self) -> (Request, TenantId) {
        let caps = [self.random.random_bool(0.3), self.random.random_bool(0.3)];
        let caps = if self.core.indices.caps.is_empty() { [false; 2] } else { caps };
        let tenant = self.random.random_range(0..N_TENANTS);
        let request = Request { class: self.class(), tenant: self.model.compartment(tenant), caps };
        (request, self.tenants[tenant])
    }

    fn index(&self, number: usize) -> Option<usize> {
        self.core.classes.iter().position(|class| class.name == class_name(number))
    }

    fn claim<'a>(core: &Core, request: Request, tenant: &'a TenantId, random: &mut StdRng) -> Claim<'a> {
        let class = core.classes.iter().position(|class| class.name == class_name(request.class)).unwrap();
        let cap = |at: usize| request.caps[at].then(|| core.indices.caps[at]);
        let caps = CapsOf::new(cap(0), cap(1));
        Claim { caps, weight: random.random_range(0..4), ..Claim::new(class, tenant) }
    }

    fn try_(&mut self) {
        let (request, tenant) = self.request();
        let claim = Self::claim(&self.core, request, &tenant, &mut self.random);
        let outcome = self.core.admit_or_refuse(&claim);
        if self.model.closed {
            return assert_eq!(outcome.unwrap_err(), Refused::ShutDown);
        }
        assert_eq!(outcome.as_ref().err().map(reason), self.model.stops(request));
        if let Ok(held) = outcome {
            self.admitted(held, request);
        }
    }

    fn enter(&mut self) {
        let (request, tenant) = self.request();
        let claim = Self::claim(&self.core, request, &tenant, &mut self.random);
        match self.core.enter(&claim, Waker::noop(), || self.now) {
            Entered::Refused(refused) if self.model.closed => assert_eq!(refused, Refused::ShutDown),
            _ if self.model.closed => panic!("all is closed"),
            Entered::Admitted(held) => {
                assert_eq!(self.model.stops(request), None);
                self.admitted(held, request);
            }
            Entered::Waiting(ticket, until) => {
                assert!(self.model.stops(request).is_some() && self.model.queue_refuses(request).is_none());
                assert!(
                    until > self.now
                        && until <= self.now + self.model.classes[&request.class].layout.max_wait
                );
                self.model.waiting.push((self.arrivals, request));
                self.tickets.push((ticket, self.arrivals, request));
                self.arrivals += 1;
            }
            Entered::Refused(refused) => {
                let hopeless = matches!(&refused, Refused::Full { expected, .. } if !expected.is_zero());
                let model =
                    if hopeless { self.model.stops(request) } else { self.model.queue_refuses(request) };
                assert_eq!(Some(reason(&refused)), model);
            }
        }
    }

    fn admitted(&mut self, held: Held, request: Request) {
        self.model.held.push(request);
        self.places.push((held, request));
    }

    fn release(&mut self) {
        let Some(at) = self.any(self.places.len()) else { return };
        let (held, request) = self.places.swap_remove(at);
        let held_us = held.is_measured.then(|| self.random.random_range(0..50_000));
        let (before, without) = (self.core.saturations(), self.core.saturations_without(&held));
        assert_eq!(self.core.saturations(), before, "to leave a place out changes nothing");
        let is_contended = self.core.is_contended();
        self.core.release(held, held_us);
        assert_eq!(without, if is_contended { before } else { self.core.saturations() });
        self.gone(request);
    }

    /// A place is back on both sides.
    fn gone(&mut self, request: Request) {
        let at = self.model.held.iter().position(|&held| held == request).unwrap();
        self.model.held.swap_remove(at);
        self.core.hand_on(self.now, &mut Woken::default());
        self.handed_on();
    }

    /// Lets the model hear whose waits the core has ended.
    fn handed_on(&mut self) {
        let mut ended = Vec::new();
        for (ticket, arrival, _) in &self.tickets {
            if self.model.waiting.iter().any(|(waiting, _)| waiting == arrival) {
                match self.core.waiters.stage(ticket) {
                    Stage::Waiting(_) => {}
                    Stage::Granted { .. } => ended.push((*arrival, End::Granted)),
                    Stage::Shed(_) => ended.push((*arrival, End::Shed)),
                    Stage::Cancelled => panic!("nobody closed"),
                }
            }
        }
        self.model.hand_on(&ended);
    }

    fn collect(&mut self) {
        let Some(at) = self.any(self.tickets.len()) else { return };
        let (ticket, arrival, request) = self.tickets.swap_remove(at);
        let stage = self.core.waiters.stage(&ticket);
        let (shed, cancelled) = (matches!(stage, Stage::Shed(_)), matches!(stage, Stage::Cancelled));
        let outcome = self.core.collect(ticket, || self.now);
        if self.leave(arrival) {
            assert_eq!(outcome.as_ref().err().map(reason), self.model.stops_waiter(request));
        } else if shed {
            assert!(matches!(outcome, Err(Refused::Full { cap: Some(_), .. })));
        } else if cancelled {
            assert!(self.model.closed && outcome.unwrap_err() == Refused::ShutDown);
        } else {
            self.places.push((outcome.unwrap(), request));
        }
    }

    fn abandon(&mut self) {
        let Some(at) = self.any(self.tickets.len()) else { return };
        let (ticket, arrival, request) = self.tickets.swap_remove(at);
        let granted = matches!(self.core.waiters.stage(&ticket), Stage::Granted { .. });
        self.core.abandon(ticket, self.now);
        if granted {
            self.gone(request);
        } else {
            self.leave(arrival);
        }
    }

    /// Takes a waiter out of the model; false if its wait had ended.
    fn leave(&mut self, arrival: u64) -> bool {
        let before = self.model.waiting.len();
        self.model.waiting.retain(|&(other, _)| other != arrival);
        self.model.waiting.len() < before
    }

    fn change(&mut self) {
        let layout = layout(&mut self.random);
        let before: [_; N_CLASSES] = std::array::from_fn(|number| self.index(number));
        self.core.change(&layout, self.now, &mut Woken::default());
        for (number, before) in before.into_iter().enumerate() {
            // Whose index another class was given is forgotten, with where its ceiling was moved to.
            if self.index(number) != before
                && let Some(class) = self.model.classes.get_mut(&number)
            {
                class.moved = None;
            }
        }
        self.take_on(&layout);
        self.handed_on();
    }

    fn take_on(&mut self, layout: &Layout) {
        let model = &mut self.model;
        (model.max, model.max_tenants) = (layout.max_in_flight(), layout.max_tenants());
        model.classes.values_mut().for_each(|class| class.layout.floor = 0);
        for class in layout.classes() {
            let number = (0..N_CLASSES).find(|&number| class_name(number) == class.name).unwrap();
            let moved = model.classes.get(&number).and_then(|class| class.moved);
            let (layout, share) = (ClassLayout::clone(class), layout.tenant_share());
            model.classes.insert(number, Class { layout, share, moved });
        }
        let cap = |at: usize| layout.caps().get(at).map_or(u32::MAX, |cap| cap.limit);
        model.caps = [cap(0), cap(1)];
    }

    fn move_ceiling(&mut self) {
        let number = self.class();
        let (ceiling, shared) = (self.random.random_range(0..8), self.random.random_range(0..8));
        let to = self.random.random_bool(0.7).then_some(Moved { ceiling, shared });
        let index = self.index(number).unwrap();
        self.core.move_ceiling(index, to, self.now, &mut Woken::default());
        self.model.classes.get_mut(&number).unwrap().moved = to;
        self.handed_on();
    }

    fn close(&mut self) {
        self.core.close(&mut Woken::default());
        self.model.closed = true;
        self.model.waiting.clear();
    }

    fn any(&mut self, n: usize) -> Option<usize> {
        (n > 0).then(|| self.random.random_range(0..n))
    }

    fn agree(&mut self) {
        let (core, model) = (&self.core, &self.model);
        assert_eq!(core.used, model.held.len() as u32);
        assert_eq!(core.waiting, model.waiting.len() as u32);
        assert_eq!(core.unused_floors, model.unused_floors());
        let saturations = core.saturations();
        for (position, &index) in core.indices.classes.iter().enumerate() {
            let number = (0..N_CLASSES).find(|&n| class_name(n) == core.classes[index].name).unwrap();
            // A tenant that holds nothing is the one that only class and cell can stop.
            let nobody = Request { class: number, tenant: usize::MAX, caps: [false; 2] };
            let stopped = model.stops(nobody).is_some();
            assert_eq!(saturations.classes()[position] == Saturation::FULL, stopped);
            // Whoever waits for class or cell makes that full, however long it has waited.
            let active = !core.classes[index].rounds.is_idle();
            assert!(!active || stopped, "somebody waits for room that there is");
        }
        for number in 0..N_CLASSES {
            let Some(index) = self.index(number) else { continue };
            let class = &core.classes[index];
            assert_eq!((class.used, class.line.len()), (model.used(number), model.queued(number)));
        }
        for (at, &index) in core.indices.caps.iter().enumerate() {
            assert_eq!((core.caps[index].used, core.caps[index].queued), model.capped(at));
        }
        let shared = core.tenants.shared_counts();
        assert_eq!((core.tenants.len(), (shared.used, shared.queued)), (model.own(), model.shared()));
    }

    /// Everybody leaves, some of them since all is closed.
    fn end(&mut self) {
        if self.random.random_bool(0.5) {
            self.close();
            let claim = Claim::new(0, &self.tenants[0]);
            assert!(matches!(self.core.admit(&claim), Err(Denied::Closed)));
            while let Some((ticket, ..)) = self.tickets.pop() {
                match self.core.collect(ticket, || self.now) {
                    Ok(held) => self.core.release(held, None),
                    Err(refused) => {
                        assert!(refused == Refused::ShutDown || reason(&refused) == CellReason::Class)
                    }
                }
            }
            self.places.drain(..).for_each(|(held, _)| self.core.release(held, Some(1)));
        }
        while !self.tickets.is_empty() {
            self.abandon();
        }
        while !self.places.is_empty() {
            self.release();
        }
        let core = &self.core;
        let shared = core.tenants.shared_counts();
        assert_eq!((core.used, core.waiting, core.tenants.len()), (0, 0, 0));
        assert_eq!((shared.used, shared.queued), (0, 0));
        assert!(core.waiters.is_empty() && core.flows.is_empty());
        assert!(core.classes.iter().all(|class| class.used == 0 && class.rounds.is_idle()));
        assert!(core.caps.iter().all(|cap| (cap.used, cap.queued) == (0, 0)));
    }
}

fn reason(refused: &Refused) -> CellReason {
    match refused {
        Refused::Full { reason, .. } => *reason,
        Refused::ShutDown => panic!("nobody closed"),
    }
}

// P39: nothing is given back twice or lost, nobody is forgotten, and no table or queue is without its bound.
#[test]
fn the_core_does_what_the_rules_say_in_a_million_random_steps() {
    // Cargo, or `make soak`, gives the seed of all random tests.
    let first = std::env::var("PROPTEST_RNG_SEED").map_or(0, |seed| seed.parse::<u64>().unwrap());
    for seed in (0..RUNS).map(|run| first.wrapping_add(run)) {
        let run = || {
            let mut pair = Pair::new(seed);
            (0..STEPS).for_each(|_| pair.step());
            pair.end();
        };
        if let Err(panic) = std::panic::catch_unwind(run) {
            panic!("in the run of seed {seed}: {panic:?}");
        }
    }
}

#[test]
fn a_waker_is_kept_until_its_outcome() {
    let mut pair = Pair::new(1);
    while pair.tickets.is_empty() {
        pair.enter();
    }
    assert!(pair.core.watch(&pair.tickets[0].0, Waker::noop().clone()).is_ok());
    pair.core.close(&mut Woken::default());
    assert!(pair.core.watch(&pair.tickets[0].0, Waker::noop().clone()).is_err());
}
