//! Where scripts go wrong with numbers and keys: beyond 10^15, below a millisecond, and where nothing has to be stored.

use std::time::Duration;

use ::redis::{Value, cmd};
use cofferdam_limits::redis::{Call, Dealing, Op, Report, Room, Script, Tokens};

use super::{Held, START_US, add_call, bucket, seq};
use crate::redis_server::RedisServer;

#[test]
fn numbers_beyond_1e15_come_back_exact() {
    // 104,249 tokens in 1/86,400,000,000: a full level of 9.007e15, just below 2^53.
    let (mut held, plan) = (Held::start(), bucket("7/d", 104_249));
    let full = 104_249 * 86_400_000_000;
    assert_eq!(held.spend(0, plan).level, full);
    assert_eq!(held.spend(1, plan).level, full - 86_400_000_000);
    held.at(1);
    assert_eq!(held.spend(1, plan).level, full - 2 * 86_400_000_000 + 7);
    let key = held.names.tokens();
    assert_eq!(held.field(&key, "t").unwrap(), (START_US + 1).to_string());
    assert_eq!(held.field(&key, "l").unwrap(), (full - 2 * 86_400_000_000 + 7).to_string());
    let settle = |held: &mut Held, spent| {
        held.tokens(
            'a',
            Tokens {
                bucket: plan,
                report: Report::Spent(spent),
                want: 0,
                min: 104_249,
                dealing: Dealing::PLAIN,
            },
        )
    };
    let debt = settle(&mut held, 300_000);
    assert_eq!(debt.level, -full);
    // From one burst below zero to a full bucket is 2^54: each half is exact, and so is the way.
    assert_eq!(debt.room, Room::In(Duration::from_micros((2 * full as u64).div_ceil(7))));
    held.at(1);
    let back = settle(&mut held, -200_000);
    assert_eq!(back.level, (200_000 - 104_249) * 86_400_000_000);
}

#[test]
fn a_key_ends_when_it_would_be_full_rounded_up_to_a_millisecond() {
    let mut held = Held::start();
    let key = held.names.tokens();
    held.at(1);
    held.spend(1, bucket("3/s", 10));
    // 333,334 us from a time that is no whole millisecond.
    assert_eq!(held.ends_in(&key), 335_000 - 1);
    held.at(10_000_000);
    held.spend(1, bucket("1/us", 10));
    assert_eq!(held.ends_in(&key), 2_000, "less than a millisecond is not nothing");
    held.at(10_002_000);
    assert_eq!(held.spend(0, bucket("1/us", 10)).level, 10);
    assert!(!held.exists(&key));
}

#[test]
fn an_expired_key_is_the_same_as_a_full_bucket() {
    let (mut held, plan) = (Held::start(), bucket("7/min", 7));
    held.spend(3, plan);
    let key = held.names.tokens();
    let ends = held.ends_in(&key);
    held.at(ends - 1);
    assert_eq!(held.spend(0, plan).level, 7 * 60_000_000);
    assert!(held.exists(&key));
    held.at(ends);
    assert_eq!(held.spend(0, plan).level, 7 * 60_000_000);
    assert!(!held.exists(&key));
}

#[test]
fn after_a_wipe_a_missing_bucket_holds_what_flowed_in_since() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    held.wipe();
    assert_eq!(held.spend(1, plan).room, Room::In(Duration::from_micros(200_000)));
    held.at(200_000);
    assert_eq!(held.spend(1, plan).granted, 1);
    let key = held.names.tokens();
    assert_eq!(held.ends_in(&key), 2_001_000);
    held.at(1_000_000);
    assert_eq!(held.spend(0, plan).level, 4 * 200_000);
    held.at(2_200_000);
    assert_eq!(held.spend(0, plan).level, 10 * 200_000);
}

/// What a full bucket stood in for before the wipe is not to be had twice.
#[test]
fn a_bucket_that_is_full_before_the_epoch_is_old_enough_stays_a_key() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    held.spend(1, plan);
    held.run_id = "run2".to_owned();
    held.at(100_000);
    held.spend(1, plan);
    let key = held.names.tokens();
    // Full at 400 ms; but no key would mean a level of 1.5 tokens then.
    assert_eq!(held.ends_in(&key), 2_001_000);
    held.at(500_000);
    assert_eq!(held.spend(10, plan).granted, 10);
}

#[test]
fn the_servers_own_clock_and_expiry_are_used_where_no_test_holds_them() {
    let server = RedisServer::start();
    let mut connection = server.connect();
    let (script, names) = (Script::sync(), super::Names::new());
    cmd("SCRIPT").arg("LOAD").arg(script.text()).exec(&mut connection).unwrap();
    cmd("SET").arg(names.epoch().as_str()).arg("run1:0").exec(&mut connection).unwrap();
    let mut builder = Call::builder(names.epoch(), &Held::session('a'), super::TTL);
    let report = Report::Account { seq: seq(1), held: 0, spent: 0 };
    builder.op(
        &names.tokens(),
        Op::Tokens(Tokens { bucket: bucket("5/s", 10), report, want: 4, min: 0, dealing: Dealing::PLAIN }),
    );
    let call = builder.build().unwrap();
    let mut commands = ::redis::pipe();
    commands.cmd("TIME");
    add_call(&mut commands, &script, "run1", &call);
    commands.cmd("PTTL").arg(names.tokens().as_str());
    let ((s, us), value, ttl_ms): ((u64, u64), Value, u64) = commands.query(&mut connection).unwrap();
    let replies = call.read(&value).unwrap();
    let late_us = replies.now_us - (s * 1_000_000 + us);
    assert!(late_us < 5_000_000, "{late_us}");
    // The account lives 6 s, and its tombstone as long; what it holds flows in within 0.8 s.
    assert!((1_800..=12_001).contains(&ttl_ms), "{ttl_ms}");
}
