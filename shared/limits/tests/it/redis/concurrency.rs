//! Permits through the script: the written schedules, word for word, and the rules around them.

use std::time::Duration;

use cofferdam_limits::redis::{Dealing, Op, Permits, PermitsReply, Reply};

use super::{Held, seq};

/// `A2(4,0)->4`: session A, seq 2, held 4, want 0, answer 4; `@` is milliseconds. Limit 6, TTL 300 ms.
const SCHEDULES: [(&str, &str); 6] = [
    ("lost answer", "A1(0,4)->4 lost; A1 again->4; B1(0,6)->2; A2(0,4)->4; A3(0,0)->0; B2(2,6)->6"),
    ("reordered release", "A4(0,6)->6; A6(4,0)->4; late A5(2,0)->STALE; B1(0,6)->2"),
    ("pause", "A1(0,6)->6; @301 B1(0,6)->6; @350 A2(6,0)->6, A's cap 0; A3(2,0)->2; B3(6,0)->6, B's cap 4"),
    ("limit 6 -> 3", "A1(0,4), B1(0,2); limit 3: A2(4,0), cap 1; B2(2,1)->2, cap 0; A3(1,0)->1; B3(2,1)->2"),
    ("expiry edge", "A1(0,6)->6; @299 B->0; @300 B->6"),
    ("equal seq", "A1(0,6)->6; limit 2; A1 again->6, unchanged; limit 6; B1(0,6)->0"),
];

/// Runs one schedule, step by step.
struct Schedule {
    held: Held,
    limit: u32,
    last: Option<(PermitsReply, Permits, char)>,
    before: Option<String>,
    n_unnamed: u64,
}

impl Schedule {
    fn start() -> Self {
        let held = Held { ttl: Duration::from_millis(300), ..Held::start() };
        Self { held, limit: 6, last: None, before: None, n_unnamed: 0 }
    }

    fn step(&mut self, step: &str) {
        if let Some((limit, rest)) =
            step.strip_prefix("limit ").map(|rest| rest.split_once(": ").unwrap_or((rest, "")))
        {
            self.limit = limit.parse().unwrap();
            return if !rest.is_empty() {
                self.step(rest)
            };
        }
        if let Some((at, rest)) = step.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            self.held.at(at.parse::<i64>().unwrap() * 1000);
            return self.step(rest);
        }
        let step = step.strip_prefix("late ").unwrap_or(step);
        let step = step.strip_suffix(" lost").unwrap_or(step);
        if step == "unchanged" {
            assert_eq!(self.stored(), self.before, "{step}");
        } else if let Some((_, cap)) = step.split_once("cap ") {
            let (reply, ..) = self.last.unwrap();
            assert_eq!(cap_of(reply, self.limit).to_string(), cap, "{step}");
        } else {
            self.call(step);
        }
    }

    fn call(&mut self, step: &str) {
        let (call, answer) = step.split_once("->").unwrap_or((step, ""));
        let name = call.chars().next().unwrap();
        let op = match call[1..].split_once(['(', ' ']) {
            Some((_, "again")) => Permits { limit: self.limit, ..self.last.unwrap().1 },
            Some((number, rest)) => {
                let (held, want) = rest.trim_end_matches(')').split_once(',').unwrap();
                self.op(number.parse().unwrap(), held.parse().unwrap(), want.parse().unwrap())
            }
            None => {
                self.n_unnamed += 1;
                self.op(self.n_unnamed, 0, 6)
            }
        };
        self.before = self.stored();
        let reply = self.held.permits(name.to_ascii_lowercase(), op);
        self.last = Some((reply, op, name));
        match answer {
            "" => {}
            "STALE" => assert!(reply.stale, "{step}"),
            total => assert_eq!((reply.stale, reply.total.to_string().as_str()), (false, total), "{step}"),
        }
    }

    fn op(&self, number: u64, held: u32, want: u32) -> Permits {
        Permits {
            limit: self.limit,
            seq: seq(number),
            held: Some(held),
            want,
            min: 0,
            dealing: Dealing::PLAIN,
        }
    }

    fn stored(&mut self) -> Option<String> {
        let session = Held::session(self.last?.2.to_ascii_lowercase());
        let key = self.held.names.permits();
        self.held.field(&key, session.as_str())
    }
}

/// What a router may use after an answer: the rule that binds every router.
pub(crate) fn cap_of(reply: PermitsReply, limit: u32) -> u64 {
    let limit = u64::from(limit);
    match reply.total + reply.others <= limit {
        true => reply.total,
        false => reply.total.min(limit.saturating_sub(reply.others)),
    }
}

#[test]
fn every_written_schedule_has_its_answers() {
    for (name, steps) in SCHEDULES {
        let mut schedule = Schedule::start();
        for step in steps.split("; ").flat_map(|steps| steps.split(", ")) {
            println!("{name}: {step}");
            schedule.step(step);
        }
    }
}

fn permits(number: u64, held: u32, want: u32) -> Permits {
    Permits { limit: 6, seq: seq(number), held: Some(held), want, min: 0, dealing: Dealing::PLAIN }
}

#[test]
fn plans_of_100_50_and_10_hold_at_once() {
    for limit in [100, 50, 10] {
        let mut held = Held::start();
        let all = held.permits('a', Permits { limit, ..permits(1, 0, limit + 1) });
        assert_eq!((all.total, all.others, all.n_live), (limit.into(), 0, 1));
        let none = held.permits('b', Permits { limit, ..permits(1, 0, 1) });
        assert_eq!((none.total, none.others, none.n_live), (0, limit.into(), 2));
    }
}

#[test]
fn an_expired_field_is_a_tombstone_for_one_more_ttl() {
    let mut held = Held::start();
    held.permits('a', permits(5, 0, 4));
    held.at(6_000_000);
    // Equal and expired, and older: neither brings it back.
    assert!(held.permits('a', permits(5, 0, 4)).stale);
    let late = held.permits('a', permits(4, 4, 0));
    assert_eq!((late.stale, late.total, late.n_live), (true, 0, 0));
    held.at(11_999_999);
    assert!(held.permits('a', permits(5, 0, 4)).stale);
    let other = held.permits('b', permits(1, 0, 6));
    assert_eq!((other.total, other.others, other.n_live), (6, 0, 1));
    held.at(12_000_000);
    held.permits('b', permits(2, 6, 0));
    let (key, session) = (held.names.permits(), Held::session('a'));
    assert_eq!(held.field(&key, session.as_str()), None);
}

#[test]
fn a_key_of_permits_outlives_its_last_field_by_two_ttls() {
    let mut held = Held::start();
    held.permits('a', permits(1, 0, 4));
    let key = held.names.permits();
    assert_eq!(held.ends_in(&key), 18_001_000);
}

#[test]
fn an_epoch_that_begins_registers_and_grants_nothing_for_a_ttl() {
    let mut held = Held::start();
    held.permits('a', permits(1, 0, 4));
    held.wipe();
    let send = |held: &mut Held, at, op| {
        held.at(at);
        let mut builder = held.builder('a');
        builder.op(&held.names.permits(), Op::Permits(op));
        let replies = held.send(&builder.build().unwrap());
        let Reply::Permits(reply) = replies.ops[0] else { panic!() };
        (replies.learning, reply.total)
    };
    assert_eq!(send(&mut held, 0, permits(2, 4, 2)), (true, 4));
    assert_eq!(send(&mut held, 5_999_999, permits(3, 4, 2)), (true, 4));
    assert_eq!(send(&mut held, 6_000_000, permits(4, 4, 2)), (false, 6));
    // Another server: it may know less than was granted.
    held.run_id = "run2".to_owned();
    assert_eq!(send(&mut held, 6_000_001, permits(5, 6, 0)), (true, 6));
    assert_eq!(send(&mut held, 12_000_001, permits(6, 0, 1)), (false, 1));
    // The clock went back behind the epoch's start.
    assert_eq!(send(&mut held, 1_000_000, permits(7, 1, 1)), (true, 1));
    assert_eq!(send(&mut held, 7_000_000, permits(8, 1, 1)), (false, 2));
}

#[test]
fn a_dead_session_counts_for_two_more_ttls_at_most_after_the_clock_went_back() {
    let mut held = Held::start();
    held.permits('a', permits(1, 0, 6));
    held.at(-3_600_000_000);
    assert_eq!(held.permits('b', permits(1, 0, 6)).total, 0);
    held.at(-3_600_000_000 + 12_000_000 - 1);
    assert_eq!(held.permits('b', permits(2, 0, 6)).total, 0);
    held.at(-3_600_000_000 + 12_000_000);
    assert_eq!(held.permits('b', permits(3, 0, 6)).total, 6);
}

#[test]
fn the_script_reads_the_servers_run_id_where_nobody_told_it() {
    let mut held = Held::start_fresh();
    held.run_id.clear();
    held.permits('a', permits(1, 0, 1));
    let info: String = ::redis::cmd("INFO").arg("server").query(&mut held.connection).unwrap();
    let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim().to_owned();
    let epoch = held.names.epoch();
    let stored: String = ::redis::cmd("GET").arg(epoch.as_str()).query(&mut held.connection).unwrap();
    assert_eq!(stored, format!("{run_id}:{}", held.now_us));
    held.at(6_000_000);
    held.run_id = run_id;
    assert_eq!(held.permits('a', permits(2, 0, 1)).total, 1, "it is the same epoch");
}
