//! Smoothed flows through the script: one place every p/n microseconds, kept exactly.

use std::time::Duration;

use ShapeReply::{Refused, Slot};
use cofferdam_limits::redis::{Op, Shape, ShapeReply};

use super::Held;
use cofferdam_limits::redis::Reply;

impl Held {
    fn shape(&mut self, op: Shape) -> ShapeReply {
        // A shape has a slot of its own; in these tests it lies among the tenant's keys.
        let key = self.names.route_tokens();
        let Reply::Shape(reply) = self.one('a', &key, Op::Shape(op)) else { panic!() };
        reply
    }
}

fn shape(rate: &str, depth: u32, max_wait_ms: u64) -> Shape {
    Shape { rate: rate.parse().unwrap(), depth, max_wait: Duration::from_millis(max_wait_ms) }
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

// P53
#[test]
fn a_burst_leaves_one_by_one_and_what_is_too_much_is_refused() {
    let (mut held, flow) = (Held::start(), shape("5/s", 3, 10_000));
    for place in 0..4 {
        assert_eq!(held.shape(flow), Slot(us(place * 200_000)));
    }
    assert_eq!(held.shape(flow), Refused(us(200_000)), "three wait");
    held.at(199_999);
    assert_eq!(held.shape(flow), Refused(us(1)));
    held.at(200_000);
    assert_eq!(held.shape(flow), Slot(us(600_000)));
    // After a pause the first one passes at once, and nothing was saved up.
    held.at(10_000_000);
    assert_eq!([held.shape(flow), held.shape(flow)], [Slot(us(0)), Slot(us(200_000))]);
}

#[test]
fn nobody_waits_longer_than_allowed() {
    let (mut held, flow) = (Held::start(), shape("5/s", 100, 500));
    let replies = [(); 4].map(|()| held.shape(flow));
    assert_eq!(replies, [Slot(us(0)), Slot(us(200_000)), Slot(us(400_000)), Refused(us(100_000))]);
    held.at(100_000);
    assert_eq!(held.shape(flow), Slot(us(500_000)));
}

#[test]
fn a_queue_of_zero_lets_nobody_wait() {
    let (mut held, flow) = (Held::start(), shape("3/s", 0, 10_000));
    assert_eq!(held.shape(flow), Slot(us(0)));
    assert_eq!(held.shape(flow), Refused(us(333_334)));
    held.at(333_333);
    assert_eq!(held.shape(flow), Refused(us(1)));
    held.at(333_334);
    assert_eq!(held.shape(flow), Slot(us(0)));
}

#[test]
fn thirds_of_a_second_add_up() {
    let (mut held, flow) = (Held::start(), shape("3/s", 3_000, 10_000_000));
    let places: Vec<_> = (0..3_001).map(|_| held.shape(flow)).collect();
    assert_eq!(places[..4], [Slot(us(0)), Slot(us(333_334)), Slot(us(666_667)), Slot(us(1_000_000))]);
    assert_eq!(places[3_000], Slot(us(1_000_000_000)));
    assert_eq!(held.shape(flow), Refused(us(333_334)));
}

#[test]
fn a_place_that_lies_too_far_ahead_is_from_before_the_clock_went_back() {
    let (mut held, flow) = (Held::start(), shape("5/s", 3, 10_000));
    for _ in 0..4 {
        held.shape(flow);
    }
    held.at(-60_000_000);
    assert_eq!(held.shape(flow), Refused(us(200_000)));
    held.at(-59_800_000);
    assert_eq!(held.shape(flow), Slot(us(600_000)), "the wait was enough");
}

#[test]
fn a_place_of_another_rate_is_rounded_up() {
    let mut held = Held::start();
    held.shape(shape("3/s", 9, 10_000));
    assert_eq!(held.shape(shape("5/s", 9, 10_000)), Slot(us(333_334)));
    assert_eq!(held.shape(shape("5/s", 9, 10_000)), Slot(us(533_334)));
}
