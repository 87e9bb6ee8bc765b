//! The bucket through the script, exactly: a call for each request, to the microsecond.

use std::cell::RefCell;
use std::time::Duration;

use cofferdam_limits::BucketPolicy;
use cofferdam_limits::redis::{Dealing, Report, Room, Tokens, TokensReply};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Held, bucket};

fn in_us(us: u64) -> Room {
    Room::In(Duration::from_micros(us))
}

impl Held {
    /// Spends `cost` tokens of the tenant's bucket, as a call for each request does.
    pub(crate) fn spend(&mut self, cost: u32, bucket: BucketPolicy) -> TokensReply {
        self.tokens(
            'a',
            Tokens { bucket, report: Report::NOTHING, want: cost, min: cost, dealing: Dealing::PLAIN },
        )
    }

    /// Takes everything, and returns when one more is there.
    fn drained(&mut self, rate: &str, capacity: u32) -> Room {
        let bucket = bucket(rate, capacity.into());
        assert_eq!(self.spend(capacity, bucket).granted, capacity);
        self.spend(1, bucket).room
    }
}

// P44
#[test]
fn eleven_at_once_ten_pass_and_the_wait_is_exact() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    for left in (0..10).rev() {
        let reply = held.spend(1, plan);
        assert_eq!((reply.granted, reply.level), (1, left * 200_000));
    }
    assert_eq!(held.spend(1, plan).room, in_us(200_000));
    held.at(199_999);
    assert_eq!(held.spend(1, plan).room, in_us(1));
    held.at(200_000);
    assert_eq!((held.spend(1, plan).granted, held.spend(1, plan).room), (1, in_us(200_000)));
}

#[test]
fn a_cost_above_the_capacity_and_a_cost_of_zero_make_no_key() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    let never = held.spend(11, plan);
    assert_eq!((never.granted, never.room, never.level), (0, Room::Never, 2_000_000));
    let look = held.spend(0, plan);
    assert_eq!((look.granted, look.room, look.level), (0, Room::Now, 2_000_000));
    let key = held.names.tokens();
    assert!(!held.exists(&key));
    held.spend(10, plan);
    assert_eq!((held.spend(0, plan).room, held.spend(0, plan).level), (Room::Now, 0));
}

#[test]
fn a_clock_that_goes_back_keeps_the_level() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    held.drained("5/s", 10);
    held.at(-1_000_000);
    assert_eq!(held.spend(1, plan).room, in_us(1_200_000));
    held.at(199_999);
    assert_eq!(held.spend(1, plan).room, in_us(1));
    // Further back than the 2 s in which it fills: the stored time is reset, and the wait it tells is enough.
    held.at(-5_000_000);
    assert_eq!(held.spend(1, plan).room, in_us(200_000));
    held.at(-4_800_001);
    assert_eq!(held.spend(1, plan).room, in_us(1));
    held.at(-4_800_000);
    assert_eq!(held.spend(1, plan).granted, 1);
}

#[test]
fn a_third_of_a_second_is_rounded_up() {
    let (mut held, plan) = (Held::start(), bucket("3/s", 1));
    held.drained("3/s", 1);
    held.at(333_333);
    assert_eq!(held.spend(1, plan).room, in_us(1));
    held.at(333_334);
    assert_eq!(held.spend(1, plan).granted, 1);
}

#[test]
fn seven_a_minute_is_seven_a_minute() {
    let (mut held, plan) = (Held::start(), bucket("7/min", 7));
    let polls = (0..=120_000_000).step_by(10_000);
    let admitted: u32 = polls
        .map(|us| {
            held.at(us);
            held.spend(1, plan).granted
        })
        .sum();
    assert_eq!(admitted, 21);
}

#[test]
fn a_lowered_capacity_clamps_at_once_and_a_raised_one_gives_nothing_at_once() {
    let mut held = Held::start();
    held.spend(4, bucket("5/s", 10));
    assert_eq!(held.spend(0, bucket("5/s", 3)).level, 3 * 200_000);
    assert_eq!(held.spend(0, bucket("5/s", 20)).level, 6 * 200_000);
    // A bucket that is no key has what the new limit gives.
    held.at(800_000 + 2_000);
    assert_eq!(held.spend(0, bucket("5/s", 20)).level, 20 * 200_000);
}

#[test]
fn another_period_converts_the_level_and_rounds_it_down() {
    let mut held = Held::start();
    held.spend(8, bucket("3/s", 10));
    assert_eq!(held.spend(0, bucket("7/min", 10)).level, 2 * 60_000_000);
    held.at(100_001);
    assert_eq!(held.spend(1, bucket("3/s", 10)).level, 1_300_003);
    assert_eq!(held.spend(0, bucket("1/7us", 10)).level, 9, "9.100021 sevenths");
    let debt = Tokens {
        bucket: bucket("3/s", 10),
        report: Report::Spent(2),
        want: 0,
        min: 0,
        dealing: Dealing::PLAIN,
    };
    assert_eq!(held.tokens('a', debt).level, -699_997);
    assert_eq!(held.spend(0, bucket("1/7us", 10)).level, -5, "-4.899979 sevenths");
}

/// In any window over random schedules: admitted x P <= capacity x P + N x elapsed.
#[test]
fn no_window_admits_more_than_capacity_and_rate() {
    let step = (0_u64..400_000, 0_u32..5, any::<bool>());
    let schedules = (1_u64..50, 1_u64..3_000_000, 1_u64..20, vec(step, 1..60));
    let held = RefCell::new(Held::start());
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&schedules, |(tokens, period_us, capacity, schedule)| {
        let mut held = held.borrow_mut();
        let (plan, mut admitted) = (bucket(&format!("{tokens}/{period_us}us"), capacity), Vec::new());
        let key = held.names.tokens();
        ::redis::cmd("DEL").arg(key.as_str()).exec(&mut held.connection).unwrap();
        for (step_us, cost, is_refunded) in schedule {
            held.now_us += step_us;
            let granted = held.spend(cost, plan).granted;
            if is_refunded {
                let report = Report::Spent(-i64::from(granted));
                held.tokens('a', Tokens { bucket: plan, report, want: 0, min: 0, dealing: Dealing::PLAIN });
            } else {
                admitted.push((held.now_us, u64::from(granted)));
            }
        }
        for (first, (from_us, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (at_us, cost) in &admitted[first..] {
                sum += cost;
                prop_assert!(sum * period_us <= capacity * period_us + tokens * (at_us - from_us));
            }
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_denied_cost_leaves_what_is_there() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    held.spend(8, plan);
    for _ in 0..3 {
        let denied = held.spend(5, plan);
        assert_eq!((denied.granted, denied.level, denied.room), (0, 400_000, in_us(600_000)));
    }
    assert_eq!(held.spend(2, plan).granted, 2);
}

#[test]
fn a_settled_cost_is_charged_down_to_minus_one_burst_and_given_back_up_to_the_burst() {
    let (mut held, plan) = (Held::start(), bucket("5/s", 10));
    let settle = |held: &mut Held, spent| {
        held.tokens(
            'a',
            Tokens { bucket: plan, report: Report::Spent(spent), want: 0, min: 0, dealing: Dealing::PLAIN },
        )
        .level
    };
    assert_eq!(settle(&mut held, 13), -3 * 200_000);
    assert_eq!(held.spend(1, plan).room, in_us(800_000));
    assert_eq!(settle(&mut held, 1_000_000), -10 * 200_000);
    assert_eq!(held.spend(10, plan).room, in_us(4_000_000));
    held.at(4_000_000 - 1);
    assert_eq!(held.spend(10, plan).room, in_us(1));
    assert_eq!(settle(&mut held, -3), 10 * 200_000);
    let key = held.names.tokens();
    assert!(!held.exists(&key), "full is the same as no key");
    assert_eq!(settle(&mut held, -5), 10 * 200_000);
    assert!(!held.exists(&key));
}
