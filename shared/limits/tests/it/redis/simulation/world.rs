//! What routers have in common: the server with its model, the network, and time. It knows no rule of a session.

use std::time::Duration;

use cofferdam_limits::BucketPolicy;
use cofferdam_limits::redis::{Key, Op, Reply};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::redis::model::{Circumstances, Model};
use crate::redis::replica::{FALL_BACK, REPLICATE};
use crate::redis::{Held, Names, START_US, bucket};

pub(super) const N_ROUTERS: usize = 3;
pub(super) const TTL: Duration = Duration::from_secs(2);
/// How much sooner than the server a session ends what it holds.
pub(super) const MARGIN_US: i128 = 100_000;
/// What the network holds at most; the oldest is lost.
const IN_FLIGHT: usize = 6;

/// What happens next. A message is named by its place among those in flight.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Pass(i128),
    RoundTrip { router: usize, want: u32 },
    Send { router: usize, want: u32 },
    Execute { nth: usize, again: bool },
    LoseRequest(usize),
    Answer { nth: usize, again: bool },
    LoseAnswer(usize),
    Start { router: usize, n: u32 },
    Finish { router: usize, n: u32 },
    Pause { router: usize, us: i128 },
    Limit(u32),
    Wipe,
    Replicate,
    Failover { is_behind: bool },
}

/// Which faults there are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Faults {
    /// The network's and the routers'.
    Network,
    /// The server's too.
    Server,
}

pub(super) fn event(faults: Faults) -> impl Strategy<Value = Event> {
    let numbers = (0_usize..N_ROUTERS, 0_u32..9, 0_usize..IN_FLIGHT, any::<bool>(), 0_i128..1_000_000);
    (0_u32..206, numbers).prop_map(move |(what, (router, n, nth, again, us))| match what {
        0..40 => Event::Pass(us / [1, 10, 100][nth % 3]),
        40..65 => Event::RoundTrip { router, want: n },
        65..85 => Event::Send { router, want: n },
        85..105 => Event::Execute { nth, again },
        105..110 => Event::LoseRequest(nth),
        110..130 => Event::Answer { nth, again },
        130..135 => Event::LoseAnswer(nth),
        135..175 => Event::Start { router, n },
        175..195 => Event::Finish { router, n },
        195..198 => Event::Pause { router, us: us * 5 },
        198..200 => Event::Limit(n),
        _ if faults == Faults::Network => Event::Pass(us),
        200 => Event::Wipe,
        201..204 => Event::Replicate,
        _ => Event::Failover { is_behind: again },
    })
}

/// The limits that the routers know, all at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) limit: u32,
    pub(super) capacity: u32,
}

impl Terms {
    pub(super) fn bucket(&self) -> BucketPolicy {
        bucket("5/s", self.capacity.into())
    }

    /// Tokens per microseconds.
    pub(super) fn rate(&self) -> (i128, i128) {
        let rate = self.bucket().rate();
        (rate.tokens().into(), rate.period_us().into())
    }
}

/// One router's session, for one tenant.
pub(super) trait Router: Default {
    /// What a call is sent for: one that is on its way already, once more, or a new one. With its number.
    fn call(&mut self, now: i128, want: u32, terms: &Terms) -> (u64, Op);
    /// An answer to call `number`, executed at `executed`.
    fn hear(&mut self, now: i128, heard: &Heard, terms: &Terms);
    /// Time went by.
    fn tick(&mut self, now: i128);
    /// Starts or spends as much of `n` as it may.
    fn start(&mut self, now: i128, n: u32);
    fn finish(&mut self, n: u32);
    fn key(names: &Names) -> Key;
}

/// An answer on its way.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    router: usize,
    pub(super) number: u64,
    pub(super) reply: Reply,
    pub(super) learning: bool,
    pub(super) executed: i128,
}

#[derive(Clone)]
struct Request {
    router: usize,
    number: u64,
    op: Op,
}

pub(super) struct World<'a, R> {
    held: &'a mut Held,
    model: Model,
    replica: Option<Model>,
    n_servers: u32,
    n_calls: u64,
    requests: Vec<Request>,
    answers: Vec<Heard>,
    paused_until: [i128; N_ROUTERS],
    pub(super) routers: Vec<R>,
    pub(super) now: i128,
    pub(super) terms: Terms,
}

impl<'a, R: Router> World<'a, R> {
    pub(super) fn new(held: &'a mut Held) -> Self {
        held.wipe();
        let epoch = held.names.epoch();
        ::redis::cmd("SET").arg(epoch.as_str()).arg("run0:0").exec(&mut held.connection).unwrap();
        Self {
            held,
            model: Model::new(true).with_epoch("run0", 0),
            replica: None,
            n_servers: 0,
            n_calls: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            paused_until: [0; N_ROUTERS],
            routers: (0..N_ROUTERS).map(|_| R::default()).collect(),
            now: START_US.into(),
            terms: Terms { limit: 6, capacity: 10 },
        }
    }

    pub(super) fn n_calls(&self) -> u64 {
        self.n_calls
    }

    pub(super) fn pass(&mut self, us: i128) {
        self.now += us;
        self.routers.iter_mut().for_each(|router| router.tick(self.now));
    }

    /// A call whose answer arrives at once.
    pub(super) fn round_trip(&mut self, router: usize, want: u32) -> Result<(), TestCaseError> {
        let (number, op) = self.routers[router].call(self.now, want, &self.terms);
        let heard = self.execute(&Request { router, number, op })?;
        self.routers[router].hear(self.now, &heard, &self.terms);
        Ok(())
    }

    pub(super) fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let acts = |router: &usize| self.paused_until[*router] <= self.now;
        match event {
            Event::Pass(us) => self.pass(*us),
            Event::RoundTrip { router, want } if acts(router) => self.round_trip(*router, *want)?,
            Event::Send { router, want } if acts(router) => {
                let (number, op) = self.routers[*router].call(self.now, *want, &self.terms);
                add(&mut self.requests, Request { router: *router, number, op });
            }
            Event::Start { router, n } if acts(router) => self.routers[*router].start(self.now, *n),
            Event::Finish { router, n } if acts(router) => self.routers[*router].finish(*n),
            Event::RoundTrip { .. } | Event::Send { .. } | Event::Start { .. } | Event::Finish { .. } => {}
            Event::Pause { router, us } => self.paused_until[*router] = self.now + us,
            Event::Limit(n) => self.terms = Terms { limit: 1 + n % 6, capacity: 5 + n },
            Event::Execute { nth, again } => {
                if let Some(request) = take(&mut self.requests, *nth, *again) {
                    let heard = self.execute(&request)?;
                    add(&mut self.answers, heard);
                }
            }
            Event::LoseRequest(nth) => _ = take(&mut self.requests, *nth, false),
            Event::Answer { nth, again } => self.arrive(*nth, *again),
            Event::LoseAnswer(nth) => _ = take(&mut self.answers, *nth, false),
            Event::Wipe => {
                self.held.wipe();
                self.model.wipe();
                self.replica = None;
            }
            Event::Replicate => {
                self.replica = Some(self.model.clone());
                self.eval(REPLICATE);
            }
            Event::Failover { is_behind } => self.fail_over(*is_behind),
        }
        Ok(())
    }

    fn arrive(&mut self, nth: usize, again: bool) {
        let arrives = |heard: &Heard| self.paused_until[heard.router] <= self.now;
        if self.answers.get(nth).is_some_and(arrives)
            && let Some(heard) = take(&mut self.answers, nth, again)
        {
            self.routers[heard.router].hear(self.now, &heard, &self.terms);
        }
    }

    /// What is on its way to the old server arrives nowhere.
    fn fail_over(&mut self, is_behind: bool) {
        self.n_servers += 1;
        self.requests.clear();
        if let (true, Some(replica)) = (is_behind, &self.replica) {
            self.model = replica.clone();
            self.eval(FALL_BACK);
        }
    }

    fn eval(&mut self, script: &str) {
        ::redis::cmd("EVAL").arg(script).arg(0).exec(&mut self.held.connection).unwrap();
    }

    fn execute(&mut self, request: &Request) -> Result<Heard, TestCaseError> {
        let Request { router, number, op } = *request;
        let (key, name) = (R::key(&self.held.names), ['a', 'b', 'c'][router]);
        self.held.run_id = format!("run{}", self.n_servers);
        self.held.now_us = self.now.try_into().unwrap();
        let mut builder = self.held.builder(name);
        builder.op(&key, op);
        let replies = self.held.send(&builder.build().unwrap());
        let (now, ttl) = (self.now, TTL.as_micros() as i128);
        let session = Held::session(name).as_str().to_owned();
        let with = Circumstances { now, run_id: self.held.run_id.clone(), session, ttl };
        let expected = self.model.call(&with, &[(0, key, op)]);
        prop_assert_eq!(&replies, &expected, "to {:?}", op);
        self.n_calls += 1;
        let (reply, learning) = (replies.ops[0], replies.learning);
        Ok(Heard { router, number, reply, learning, executed: self.now })
    }
}

/// Takes a message off the network; one that comes `again` stays there too.
fn take<T: Clone>(messages: &mut Vec<T>, nth: usize, again: bool) -> Option<T> {
    match messages.get(nth).cloned() {
        Some(message) if again => Some(message),
        Some(_) => Some(messages.remove(nth)),
        None => None,
    }
}

fn add<T>(messages: &mut Vec<T>, message: T) {
    if messages.len() == IN_FLIGHT {
        messages.remove(0);
    }
    messages.push(message);
}
