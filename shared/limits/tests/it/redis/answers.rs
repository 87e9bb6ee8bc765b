//! Any calls in any order, through clocks that jump, wipes, failovers and changed limits: the script answers every one of
//! them exactly as the model does.

mod asked;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use ::redis::{Value, pipe};
use cofferdam_limits::redis::{Call, Replies};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::model::{Circumstances, Model, Step};
use super::replica::{FALL_BACK, REPLICATE};
use super::{Held, START_US, add_call};
use asked::{Ask, Limits};

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    Call {
        session: char,
        asks: Vec<Ask>,
    },
    Clock(i64),
    Wipe,
    /// Another server takes over. It may have missed what was written since it was last heard of.
    Failover {
        is_behind: bool,
    },
    /// The server that may take over hears of everything until now.
    Replicate,
}

/// How the world of one case may behave.
#[derive(Clone, Copy, PartialEq)]
enum World {
    /// Everything may happen.
    Rough,
    /// The clock does not go back, limits stay, and a server that is there stays: a key that ended is then the same as what
    /// it held, so that the model need not forget anything.
    Steady,
}

/// What may happen next. Plain ranges, since choices between strategies would cost more than the calls.
fn event(world: World) -> impl Strategy<Value = Event> {
    let clock = (0_u32..4, 0_i64..1_000_000);
    let call = (prop::sample::select(&['a', 'b', 'c'][..]), vec(asked::ask(), 1..4));
    (0_u32..130, clock, call).prop_map(move |(what, (reach, us), (session, asks))| match what {
        0..80 => Event::Call { session, asks },
        80..120 => {
            Event::Clock(us * [1, 8, 100, 1_000][reach as usize] / 1_000_i64.pow((reach % 2) * (what % 2)))
        }
        120..122 => Event::Wipe,
        _ if world == World::Steady => Event::Clock(us),
        122..127 => Event::Clock(-us * [1, 2, 1, 50][reach as usize]),
        127 => Event::Failover { is_behind: true },
        128 => Event::Failover { is_behind: false },
        _ => Event::Replicate,
    })
}

fn histories(world: World) -> impl Strategy<Value = Vec<Event>> {
    vec(event(world), 1..600)
}

/// A case: the commands for the server, and what the model answers.
struct Case<'a> {
    held: &'a Held,
    limits: Limits,
    model: Model,
    replica: Option<Model>,
    now_us: u64,
    n_servers: u32,
    commands: ::redis::Pipeline,
    expected: Vec<(Call, Replies)>,
}

impl<'a> Case<'a> {
    fn new(held: &'a Held, world: World) -> Self {
        let (epoch, mut commands) = (held.names.epoch(), pipe());
        commands.cmd("FLUSHALL").ignore().cmd("SET").arg(epoch.as_str()).arg("run0:0").ignore();
        let model = Model::new(world == World::Rough).with_epoch("run0", 0);
        let limits = if world == World::Rough { Limits::Change } else { Limits::Stay };
        let now_us = START_US;
        Self { held, limits, model, replica: None, now_us, n_servers: 0, commands, expected: Vec::new() }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Clock(us) => self.now_us = self.now_us.saturating_add_signed(*us),
            Event::Wipe => {
                self.model.wipe();
                self.replica = None;
                self.commands.cmd("FLUSHALL").ignore();
            }
            Event::Replicate => {
                self.replica = Some(self.model.clone());
                self.commands.cmd("EVAL").arg(REPLICATE).arg(0).ignore();
            }
            Event::Failover { is_behind } => {
                self.n_servers += 1;
                if let (true, Some(replica)) = (is_behind, &self.replica) {
                    self.model = replica.clone();
                    self.commands.cmd("EVAL").arg(FALL_BACK).arg(0).ignore();
                }
            }
            Event::Call { session, asks } => self.call(*session, asks),
        }
    }

    fn call(&mut self, session: char, asks: &[Ask]) {
        let run_id = format!("run{}", self.n_servers);
        let steps = asked::steps(asks, &self.held.names, self.limits, self.expected.len() as u64);
        let mut builder = self.held.builder(session);
        for group in steps.chunk_by(|(a, ..): &Step, (b, ..)| a == b && *a != 0) {
            match group {
                [(0, key, op)] => _ = builder.op(key, *op),
                group => _ = builder.group(&group.iter().map(|(_, key, op)| (key, *op)).collect::<Vec<_>>()),
            }
        }
        let call = builder.build().unwrap();
        let clock = format!("{}clock", call.keys()[0].tag());
        self.commands.cmd("SET").arg(clock).arg(self.now_us).ignore();
        add_call(&mut self.commands, &self.held.script, &run_id, &call);
        let session = Held::session(session).as_str().to_owned();
        let (now, ttl) = (self.now_us.into(), self.held.ttl.as_micros() as i128);
        let replies = self.model.call(&Circumstances { now, run_id, session, ttl }, &steps);
        self.expected.push((call, replies));
    }
}

/// Runs so many cases, and returns how many calls were answered as they should be.
fn run(world: World, cases: u32) -> u64 {
    let (held, n_calls) = (RefCell::new(Held { ttl: Duration::from_secs(2), ..Held::start() }), Cell::new(0));
    let config = Config { cases, source_file: Some(file!()), max_shrink_iters: 2_000, ..Config::default() };
    let result = TestRunner::new(config).run(&histories(world), |history| {
        let mut held = held.borrow_mut();
        let mut case = Case::new(&held, world);
        history.iter().for_each(|event| case.happen(event));
        let Case { commands, expected, .. } = case;
        let values: Vec<Value> = commands.query(&mut held.connection).unwrap();
        prop_assert_eq!(values.len(), expected.len());
        for (nth, ((call, expected), value)) in expected.iter().zip(&values).enumerate() {
            let answered = call.read(value).unwrap();
            prop_assert_eq!(&answered, expected, "answer {} to {:?}", nth, call);
        }
        n_calls.set(n_calls.get() + values.len() as u64);
        Ok(())
    });
    result.unwrap();
    n_calls.get()
}

#[test]
fn whatever_happens_the_script_answers_as_the_model_does() {
    let n_calls = run(World::Rough, 640);
    println!("{n_calls} calls were answered as the model answers");
    assert!(n_calls >= 100_000);
}

#[test]
fn a_key_that_ended_answers_as_if_it_had_been_kept() {
    let n_calls = run(World::Steady, 150);
    println!("{n_calls} calls were answered as by a model that never forgets");
}
