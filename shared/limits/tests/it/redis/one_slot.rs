//! Every key is declared, and lies in one slot: tried where a server is strict about it, since most accept what a cluster
//! of several nodes would refuse.

use std::time::Duration;

use ::redis::{Connection, Value, cmd};
use cofferdam_limits::redis::{Call, Dealing, Op, Permits, Report, Script, Shape, Tokens, Window};

use super::{Held, Names, TTL, bucket, seq};
use crate::redis_server::RedisServer;

/// A call with every kind, which writes every key.
fn call_of_every_kind(number: u64) -> Call {
    let names = Names::new();
    let report = Report::Account { seq: seq(number), held: 0, spent: 0 };
    let mut builder = Call::builder(names.epoch(), &Held::session('a'), TTL);
    let permits =
        Permits { limit: 6, seq: seq(number), held: Some(0), want: 1, min: 0, dealing: Dealing::PLAIN };
    let tokens = Tokens { bucket: bucket("5/s", 10), report, want: 1, min: 0, dealing: Dealing::PLAIN };
    let exact = Tokens { report: Report::Spent(1), ..tokens };
    builder.group(&[(&names.permits(), Op::Permits(permits)), (&names.tokens(), Op::Tokens(tokens))]);
    builder.op(&names.route_tokens(), Op::Tokens(exact));
    builder.op(
        &names.window(60),
        Op::Window(Window { window_s: 60, limit: 9, report, want: 1, min: 0, dealing: Dealing::PLAIN }),
    );
    let shape = Shape { rate: "5/s".parse().unwrap(), depth: 9, max_wait: Duration::from_secs(9) };
    builder.op(&names.window(1), Op::Shape(shape));
    builder.build().unwrap()
}

fn eval(connection: &mut Connection, script: &str, call: &Call) -> ::redis::RedisResult<Value> {
    let mut command = cmd("EVAL");
    command.arg(script).arg(call.keys().len());
    for key in call.keys() {
        command.arg(key.as_str());
    }
    command.arg("run1");
    for arg in call.args() {
        command.arg(arg);
    }
    command.query(connection)
}

#[test]
fn a_cluster_takes_every_call_and_would_refuse_a_key_of_another_slot() {
    let server = RedisServer::start_cluster_of_one();
    let mut connection = server.connect();
    // With this line a server forbids keys of other slots, even where one node has them all.
    let strict = format!("#!lua\n{}", Script::sync().text());
    for number in 1..=3 {
        let call = call_of_every_kind(number);
        let replies = call.read(&eval(&mut connection, &strict, &call).unwrap()).unwrap();
        assert_eq!((replies.ops.len(), replies.learning), (5, true));
    }
    let stray = strict.replace("local ops = parse()", "redis.call('GET', 'stray') local ops = parse()");
    let error = eval(&mut connection, &stray, &call_of_every_kind(4)).unwrap_err();
    assert!(error.to_string().contains("same slot"), "{error}");
}

#[test]
fn a_user_that_may_touch_the_declared_keys_alone_may_make_every_call() {
    let server = RedisServer::start();
    let mut connection = server.connect();
    let set_user = |connection: &mut Connection, keys: &[String]| {
        let mut command = cmd("ACL");
        command.arg("SETUSER").arg("router").arg("on").arg("nopass").arg("+@all").arg("resetkeys");
        command.arg(keys.iter().map(|key| format!("~{key}")).collect::<Vec<_>>()).exec(connection).unwrap();
    };
    let call = call_of_every_kind(1);
    let keys: Vec<String> = call.keys().iter().map(|key| key.as_str().to_owned()).collect();
    set_user(&mut connection, &keys);
    let mut router = server.connect();
    cmd("AUTH").arg("router").arg("any").exec(&mut router).unwrap();
    for number in 1..=3 {
        let call = call_of_every_kind(number);
        call.read(&eval(&mut router, Script::sync().text(), &call).unwrap()).unwrap();
    }
    let stray = Script::sync()
        .text()
        .replace("local ops = parse()", "redis.call('GET', 'stray') local ops = parse()");
    let error = eval(&mut router, &stray, &call).unwrap_err();
    assert!(error.to_string().contains("can't access"), "{error}");
}
