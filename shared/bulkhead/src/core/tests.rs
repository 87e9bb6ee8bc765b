//! The core against a naive model, a million random steps long: requests, releases, waits that end in every way,
//! changes of the layout, and the end.

mod model;

use std::task::Waker;
use std::time::Duration;

use cofferdam_model::{Alphabet, CellReason, ClassName, Saturation, TenantId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use self::model::{End, Model, Request, Share};
use super::{Core, Denied, Entered, Held, Woken};
use crate::caps::{CapKind, CapLayout, CapName, CapsOf};
use crate::claim::Claim;
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::refusal::Refused;
use crate::waiters::{Stage, Ticket};

const N_TENANTS: usize = 5;
const N_CLASSES: usize = 4;
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
        let name = |n| TenantId::parse(format!("t{n}").as_bytes(), &Alphabet::default()).unwrap();
        let layout = layout(&mut random);
        let model = Model {
            max: 0,
            classes: [].into(),
            shares: [].into(),
            caps: [u32::MAX; 2],
            held: Vec::new(),
            waiting: Vec::new(),
        };
        let mut pair = Self {
            core: Core::new(&layout),
            model,
            tenants: (0..N_TENANTS).map(name).collect(),
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
        match self.random.random_range(0..100) {
            0..10 => self.try_(),
            10..50 => self.enter(),
            50..78 => self.release(),
            78..86 => self.collect(),
            86..97 => self.abandon(),
            _ => self.change(),
        }
        // Whose turn it was is looked at each time; everything, often enough.
        if self.random.random_bool(0.3) {
            self.agree();
        }
    }

    /// A random request for a class that the core knows, maybe by a layout that is over.
    fn request(&mut self) -> Request {
        let known: Vec<_> = (0..N_CLASSES).filter(|&number| self.index(number).is_some()).collect();
        let class = known[self.random.random_range(0..known.len())];
        let caps = [self.random.random_bool(0.3), self.random.random_bool(0.3)];
        let caps = if self.core.indices.caps.is_empty() { [false; 2] } else { caps };
        Request { class, tenant: self.random.random_range(0..N_TENANTS), caps }
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
        let request = self.request();
        let claim = Self::claim(&self.core, request, &self.tenants[request.tenant], &mut self.random);
        let outcome = self.core.admit_or_refuse(&claim);
        assert_eq!(outcome.as_ref().err().map(reason), self.model.stops(request));
        if let Ok(held) = outcome {
            self.admitted(held, request);
        }
    }

    fn enter(&mut self) {
        let request = self.request();
        let claim = Self::claim(&self.core, request, &self.tenants[request.tenant], &mut self.random);
        match self.core.enter(&claim, Waker::noop(), || self.now) {
            Entered::Admitted(held) => {
                assert_eq!(self.model.stops(request), None);
                self.admitted(held, request);
            }
            Entered::Waiting(ticket, until) => {
                assert!(self.model.stops(request).is_some() && self.model.queue_refuses(request).is_none());
                assert!(until > self.now && until <= self.now + self.model.classes[&request.class].max_wait);
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
        let shed = matches!(self.core.waiters.stage(&ticket), Stage::Shed(_));
        let outcome = self.core.collect(ticket, || self.now);
        if self.leave(arrival) {
            assert_eq!(outcome.as_ref().err().map(reason), self.model.stops_waiter(request));
        } else if shed {
            assert!(matches!(outcome, Err(Refused::Full { cap: Some(_), .. })));
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
        self.core.change(&layout, self.now, &mut Woken::default());
        self.take_on(&layout);
        self.handed_on();
    }

    fn take_on(&mut self, layout: &Layout) {
        let model = &mut self.model;
        model.max = layout.max_in_flight();
        model.classes.values_mut().for_each(|class| class.floor = 0);
        for class in layout.classes() {
            let number = (0..N_CLASSES).find(|&number| class_name(number) == class.name).unwrap();
            model.classes.insert(number, class.clone());
            model.shares.insert(number, Share::new(class, layout.tenant_share()));
        }
        for class in model.classes.values_mut() {
            class.ceiling = class.ceiling.min(model.max);
        }
        let cap = |at: usize| layout.caps().get(at).map_or(u32::MAX, |cap| cap.limit);
        model.caps = [cap(0), cap(1)];
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
            let nobody = Request { class: number, tenant: N_TENANTS, caps: [false; 2] };
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
        let busy = |tenant: &usize| {
            let mine = |request: &Request| request.tenant == *tenant;
            model.held.iter().any(mine) || model.waiting.iter().any(|(_, waiter)| mine(waiter))
        };
        assert_eq!(core.tenants.len(), (0..N_TENANTS).filter(busy).count());
    }

    /// Everybody leaves, some of them since all is closed.
    fn end(&mut self) {
        if self.random.random_bool(0.5) {
            self.core.close(&mut Woken::default());
            self.model.waiting.clear();
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
        assert_eq!((core.used, core.waiting, core.tenants.len()), (0, 0, 0));
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

fn class_name(number: usize) -> ClassName {
    ClassName::parse(&format!("c{number}")).unwrap()
}

/// A random layout of at least one class, with both caps or none.
fn layout(random: &mut StdRng) -> Layout {
    let max = random.random_range(6..11);
    let mut classes = Vec::new();
    for number in 0..N_CLASSES {
        if random.random_bool(0.8) || (number == N_CLASSES - 1 && classes.is_empty()) {
            let floor = random.random_range(0..2);
            classes.push(ClassLayout {
                name: class_name(number),
                priority: random.random_range(0..3),
                floor,
                ceiling: (floor + random.random_range(1..5)).min(max),
                queue: random.random_range(0..6),
                max_wait: Duration::from_secs(1),
            });
        }
    }
    let share = [250, 500, 1000][random.random_range(0..3)];
    let layout = Layout::new(max, TenantShare::from_thousandths(share).unwrap(), 100, classes).unwrap();
    let cap = |kind, limit| CapLayout { name: CapName { kind, name: "a".into() }, limit };
    let caps = if random.random_bool(0.8) {
        let (route, dependency) = (random.random_range(1..8), random.random_range(1..8));
        vec![cap(CapKind::Route, route), cap(CapKind::Dependency, dependency)]
    } else {
        Vec::new()
    };
    layout.with_caps(caps).unwrap()
}

// P39: nothing is given back twice or lost, nobody is forgotten, and no table or queue is without its bound.
#[test]
fn the_core_does_what_the_rules_say_in_a_million_random_steps() {
    for seed in 0..RUNS {
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
    assert!(pair.core.watch(&pair.tickets[0].0, Waker::noop()).is_some());
    pair.core.close(&mut Woken::default());
    assert!(pair.core.watch(&pair.tickets[0].0, Waker::noop()).is_none());
}
