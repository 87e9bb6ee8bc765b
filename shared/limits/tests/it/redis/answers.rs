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

fn events(world: World) -> impl Strategy<Value = Event> {
    let asks = vec(asked::ask(), 1..4);
    let call = (prop::sample::select(vec!['a', 'b', 'c']), asks)
        .prop_map(|(session, asks)| Event::Call { session, asks });
    let forward = prop_oneof![
        4 => 0_i64..2_000,
        4 => 0_i64..1_000_000,
        2 => 0_i64..8_000_000,
        1 => 0_i64..100_000_000,
    ];
    let forward = forward.prop_map(Event::Clock);
    if world == World::Steady {
        return prop_oneof![40 => call, 20 => forward, 1 => Just(Event::Wipe)].boxed();
    }
    let back = prop_oneof![3 => 0_i64..2_000_000, 1 => 0_i64..50_000_000].prop_map(|us| Event::Clock(-us));
    let failover = any::<bool>().prop_map(|is_behind| Event::Failover { is_behind });
    let rare = prop_oneof![Just(Event::Wipe), failover, Just(Event::Replicate)];
    prop_oneof![80 => call, 40 => forward, 6 => back, 4 => rare].boxed()
}

fn histories(world: World) -> impl Strategy<Value = Vec<Event>> {
    vec(events(world), 1..600)
}

/// Copies every key beside itself, or back. A test's own scripts, which declare nothing.
const REPLICATE: &str = "
    for _, key in ipairs(redis.call('KEYS', 'old{*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('COPY', key, 'old' .. key) end";
const FALL_BACK: &str = "
    for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', 'old{*')) do redis.call('COPY', key, string.sub(key, 4)) end";

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
