//! The script on a real server: right values to the microsecond, with the time in the test's hand; every answer beside a
//! model's; and simulated routers behind a network that loses, repeats and delays.

mod answers;
mod bucket;
mod concurrency;
mod container;
mod groups;
mod leases;
mod model;
mod numbers;
mod one_slot;
mod replica;
mod shapes;
mod simulation;
mod windows;

use std::num::NonZeroU64;
use std::time::Duration;

use ::redis::{Connection, Value, cmd};
use cofferdam_limits::redis::{
    Call, CallBuilder, Fleet, Key, Op, Permits, PermitsReply, Replies, Reply, Script, Session, Tokens,
    TokensReply,
};
use cofferdam_limits::{BucketPolicy, RouteKey};
use cofferdam_model::{Alphabet, TenantId};

use crate::redis_server::RedisServer;

/// Where the clock stands at the start: some day of 2026, since numbers of that size are where scripts go wrong.
pub(crate) const START_US: u64 = 1_790_000_000_000_000;
/// How long fields and accounts live, unless a test says otherwise.
pub(crate) const TTL: Duration = Duration::from_secs(6);

/// A server with the script, whose clock stands still, and one tenant's keys.
pub(crate) struct Held {
    pub(crate) connection: Connection,
    script: Script,
    pub(crate) now_us: u64,
    pub(crate) run_id: String,
    pub(crate) ttl: Duration,
    pub(crate) names: Names,
    _server: RedisServer,
}

/// The keys of one tenant.
pub(crate) struct Names {
    pub(crate) fleet: Fleet,
    pub(crate) tenant: TenantId,
}

impl Names {
    pub(crate) fn new() -> Self {
        let tenant = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        Self { fleet: Fleet::parse("f").unwrap(), tenant }
    }

    pub(crate) fn epoch(&self) -> Key {
        self.fleet.epoch(self.fleet.bucket(&self.tenant))
    }

    pub(crate) fn permits(&self) -> Key {
        self.fleet.permits(&self.tenant)
    }

    pub(crate) fn tokens(&self) -> Key {
        self.fleet.tokens(&self.tenant)
    }

    pub(crate) fn route_tokens(&self) -> Key {
        self.fleet.route_tokens(RouteKey(0x5e), &self.tenant)
    }

    pub(crate) fn window(&self, window_s: u32) -> Key {
        self.fleet.window(window_s, &self.tenant)
    }
}

impl Held {
    /// A server whose epoch began long ago.
    pub(crate) fn start() -> Self {
        let mut held = Self::start_fresh();
        let epoch = held.names.epoch();
        cmd("SET").arg(epoch.as_str()).arg("run1:0").exec(&mut held.connection).unwrap();
        held
    }

    /// A server that never had a call.
    pub(crate) fn start_fresh() -> Self {
        let server = RedisServer::start();
        let mut connection = server.connect();
        let script = Script::with_clock(include_str!("clock_from_key.lua"));
        let sha1: String = cmd("SCRIPT").arg("LOAD").arg(script.text()).query(&mut connection).unwrap();
        assert_eq!(sha1, script.sha1());
        let run_id = "run1".to_owned();
        Self { connection, script, now_us: START_US, run_id, ttl: TTL, names: Names::new(), _server: server }
    }

    /// Moves the clock to so many microseconds after the start, or before it.
    pub(crate) fn at(&mut self, us: i64) {
        self.now_us = START_US.checked_add_signed(us).unwrap();
    }

    /// A call of the tenant's bucket, by one of the sessions `a`, `b`, ...
    pub(crate) fn builder(&self, session: char) -> CallBuilder {
        Call::builder(self.names.epoch(), &Self::session(session), self.ttl)
    }

    pub(crate) fn session(name: char) -> Session {
        Session::parse(&format!("session{name}")).unwrap()
    }

    /// Sends a call at the time at which the clock stands.
    pub(crate) fn send(&mut self, call: &Call) -> Replies {
        let tag = call.keys()[0].tag();
        let mut commands = ::redis::pipe();
        commands.cmd("SET").arg(format!("{tag}clock")).arg(self.now_us).ignore();
        add_call(&mut commands, &self.script, &self.run_id, call);
        let (value,): (Value,) = commands.query(&mut self.connection).unwrap();
        call.read(&value).unwrap()
    }

    /// Sends one operation of one session.
    pub(crate) fn one(&mut self, session: char, key: &Key, op: Op) -> Reply {
        let mut builder = self.builder(session);
        builder.op(key, op);
        self.send(&builder.build().unwrap()).ops[0]
    }

    pub(crate) fn tokens(&mut self, session: char, op: Tokens) -> TokensReply {
        let Reply::Tokens(reply) = self.one(session, &self.names.tokens(), Op::Tokens(op)) else { panic!() };
        reply
    }

    pub(crate) fn permits(&mut self, session: char, op: Permits) -> PermitsReply {
        let Reply::Permits(reply) = self.one(session, &self.names.permits(), Op::Permits(op)) else {
            panic!()
        };
        reply
    }

    /// Whether a key is there, as far as the clock in the test's hand says.
    pub(crate) fn exists(&mut self, key: &Key) -> bool {
        cmd("EXISTS").arg(key.as_str()).query(&mut self.connection).unwrap()
    }

    /// How long after now a key ends.
    pub(crate) fn ends_in(&mut self, key: &Key) -> i64 {
        let ends = format!("{}ends", key.tag());
        let ends: i64 = cmd("HGET").arg(ends).arg(key.as_str()).query(&mut self.connection).unwrap();
        ends - self.now_us as i64
    }

    /// A field of a key, as it is stored.
    pub(crate) fn field(&mut self, key: &Key, field: &str) -> Option<String> {
        cmd("HGET").arg(key.as_str()).arg(field).query(&mut self.connection).unwrap()
    }

    pub(crate) fn wipe(&mut self) {
        cmd("FLUSHALL").exec(&mut self.connection).unwrap();
    }
}

/// Adds `EVALSHA` of a call to commands that are sent together.
pub(crate) fn add_call(commands: &mut ::redis::Pipeline, script: &Script, run_id: &str, call: &Call) {
    commands.cmd("EVALSHA").arg(script.sha1()).arg(call.keys().len());
    for key in call.keys() {
        commands.arg(key.as_str());
    }
    commands.arg(run_id);
    for arg in call.args() {
        commands.arg(arg);
    }
}

pub(crate) fn bucket(rate: &str, capacity: u64) -> BucketPolicy {
    BucketPolicy::new(rate.parse().unwrap(), capacity).unwrap()
}

pub(crate) fn seq(seq: u64) -> NonZeroU64 {
    NonZeroU64::new(seq).unwrap()
}
