//! Operations that are granted all or none, and calls of several of them.

use std::time::Duration;

use cofferdam_limits::redis::{
    Dealing, Op, Permits, Replies, Reply, Report, Room, Shape, ShapeReply, Tokens, Window,
};

use super::{Held, bucket, seq};

fn tokens(want: u32, capacity: u64) -> Op {
    Op::Tokens(Tokens {
        bucket: bucket("5/s", capacity),
        report: Report::NOTHING,
        want,
        min: want,
        dealing: Dealing::PLAIN,
    })
}

fn permit(number: u64, held: Option<u32>, limit: u32) -> Op {
    Op::Permits(Permits { limit, seq: seq(number), held, want: 1, min: 1, dealing: Dealing::PLAIN })
}

fn granted(replies: &Replies) -> Vec<u64> {
    let one = |reply: &Reply| match reply {
        Reply::Permits(reply) => reply.total,
        Reply::Tokens(reply) => reply.granted.into(),
        Reply::Window(reply) => reply.granted.into(),
        Reply::Shape(reply) => u64::from(matches!(reply, ShapeReply::Slot(_))),
    };
    replies.ops.iter().map(one).collect()
}

impl Held {
    fn group(&mut self, ops: &[(&cofferdam_limits::redis::Key, Op)]) -> Replies {
        let mut builder = self.builder('a');
        builder.group(ops);
        self.send(&builder.build().unwrap())
    }
}

// P45
#[test]
fn a_group_is_granted_whole_or_not_at_all() {
    let mut held = Held::start();
    let (tenant, route, permits) = (held.names.tokens(), held.names.route_tokens(), held.names.permits());
    let group = |held: &mut Held, number| {
        let ops = [
            (&permits, permit(number, Some(number as u32 - 1), 9)),
            (&tenant, tokens(2, 10)),
            (&route, tokens(1, 3)),
        ];
        granted(&held.group(&ops))
    };
    for number in 1..=3 {
        assert_eq!(group(&mut held, number), [number, 2, 1]);
    }
    // The route is empty: no other level is charged.
    assert_eq!(group(&mut held, 4), [3, 0, 0]);
    let look = held.group(&[(&tenant, tokens(0, 10)), (&route, tokens(1, 3))]);
    let [Reply::Tokens(tenant), Reply::Tokens(route)] = look.ops[..] else { panic!() };
    assert_eq!((tenant.level, tenant.room), (4 * 200_000, Room::Now));
    assert_eq!((route.level, route.room), (0, Room::In(Duration::from_millis(200))));
}

#[test]
fn what_a_refused_group_reports_is_written_all_the_same() {
    let mut held = Held::start();
    let (tenant, route) = (held.names.tokens(), held.names.route_tokens());
    let lease = |number, held, spent, want| {
        let report = Report::Account { seq: seq(number), held, spent };
        Op::Tokens(Tokens { bucket: bucket("5/s", 10), report, want, min: 0, dealing: Dealing::PLAIN })
    };
    held.one('a', &tenant, lease(1, 0, 0, 8));
    let refused = held.group(&[(&tenant, lease(2, 3, 1, 5)), (&route, tokens(4, 3))]);
    let [Reply::Tokens(lease), Reply::Tokens(never)] = refused.ops[..] else { panic!() };
    // Of 8 are 3 held and 1 spent: 4 came back.
    assert_eq!((lease.granted, lease.level, lease.outstanding), (0, 6 * 200_000, 3));
    assert_eq!((never.granted, never.room), (0, Room::Never));
}

#[test]
fn every_kind_takes_part_in_a_group() {
    let mut held = Held::start();
    let (tenant, place, quota) = (held.names.tokens(), held.names.route_tokens(), held.names.window(60));
    let shape = Op::Shape(Shape { rate: "5/s".parse().unwrap(), depth: 0, max_wait: Duration::ZERO });
    let window = Op::Window(Window {
        window_s: 60,
        limit: 3,
        report: Report::NOTHING,
        want: 1,
        min: 1,
        dealing: Dealing::PLAIN,
    });
    let ops = [(&tenant, tokens(1, 10)), (&place, shape), (&quota, window)];
    assert_eq!(granted(&held.group(&ops)), [1, 1, 1]);
    assert_eq!(granted(&held.group(&ops)), [0, 0, 0], "the place is taken");
    held.at(200_000);
    assert_eq!(granted(&held.group(&ops)), [1, 1, 1]);
    held.at(400_000);
    assert_eq!(granted(&held.group(&ops)), [1, 1, 1]);
    held.at(600_000);
    assert_eq!(granted(&held.group(&ops)), [0, 1, 0], "the quota is used up, and the place stays free");
    let free = held.one('a', &place, shape);
    assert_eq!(free, Reply::Shape(ShapeReply::Slot(Duration::ZERO)));
}

#[test]
fn a_later_group_of_a_call_sees_what_an_earlier_one_wrote() {
    let mut held = Held::start();
    let (tenant, permits) = (held.names.tokens(), held.names.permits());
    let mut builder = held.builder('a');
    builder.group(&[(&permits, permit(5, Some(2), 4)), (&tenant, tokens(4, 10))]);
    builder.group(&[(&permits, permit(6, None, 4)), (&tenant, tokens(4, 10))]);
    builder.group(&[(&permits, permit(7, None, 4)), (&tenant, tokens(1, 10))]);
    builder.op(&tenant, tokens(2, 10));
    let call = builder.build().unwrap();
    assert_eq!(granted(&held.send(&call)), [3, 4, 4, 4, 4, 0, 2]);
    // The same call once more changes nothing that has a seq, and takes no tokens without it.
    let again = held.send(&call);
    let Reply::Permits(reply) = again.ops[4] else { panic!() };
    assert_eq!((granted(&again), reply.stale), (vec![4, 0, 4, 0, 4, 0, 0], false));
}

#[test]
fn arguments_that_do_not_fit_the_keys_change_nothing() {
    let mut held = Held::start();
    let script = cofferdam_limits::redis::Script::sync();
    for args in [
        &["t", "0", "1"][..],
        &["x", "0"],
        &["s", "0", "1", "1", "1", "1", "1"],
        &["s", "0", "1", "y", "1", "1"],
    ] {
        let mut command = ::redis::cmd("EVAL");
        command
            .arg(script.text())
            .arg(2)
            .arg("{f:1}e")
            .arg("{f:1}x")
            .arg("run1")
            .arg("sessiona")
            .arg(6_000_000);
        let error = command.arg(args).exec(&mut held.connection).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
    }
    let n_keys: u64 = ::redis::cmd("EXISTS").arg("{f:1}e").arg("{f:1}x").query(&mut held.connection).unwrap();
    assert_eq!(n_keys, 0);
}
