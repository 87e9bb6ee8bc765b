//! The leaky bucket, as a schedule.

use std::time::Duration;

use cofferdam_limits::redis::{Reply, Shape, ShapeReply};

use super::moment::{Moment, Outcome, Stored, ceil};

/// The next free place, in 1/n microseconds.
#[derive(Debug, Clone)]
pub(super) struct Next {
    at: i128,
    n: i128,
}

pub(super) fn ask(next: Option<&Next>, op: &Shape, moment: &Moment<'_>) -> Outcome<Next> {
    let (n, p) = (i128::from(op.rate.tokens()), i128::from(op.rate.period_us()));
    let (depth, max_wait, now) = (i128::from(op.depth), op.max_wait.as_micros() as i128, moment.now * n);
    let at = next.map_or(now, |next| if next.n == n { next.at } else { ceil(next.at, next.n) * n });
    let furthest = now + (depth + 1) * p;
    let (is_reset, at) = (at > furthest, at.max(now).min(furthest));
    // How much sooner it would have to be: for the longest wait, and for those who wait before it.
    let too_long = ceil(at - now, n) - max_wait;
    let too_many = ceil(at - now - depth * p, n);
    let wait = too_long.max(too_many).max(0);
    let us = |us: i128| Duration::from_micros(us.try_into().unwrap());
    let until = |at: i128| Stored::Until(Next { at, n }, at.div_euclid(n) - moment.now + 1);
    let (reply, stored) = match wait {
        0 if moment.gives => (ShapeReply::Slot(us(ceil(at - now, n))), until(at + p)),
        0 => (ShapeReply::Slot(us(ceil(at - now, n))), Stored::Unchanged),
        wait => (ShapeReply::Refused(us(wait)), Stored::Unchanged),
    };
    let stored = match stored {
        Stored::Unchanged if is_reset => until(at),
        stored => stored,
    };
    Outcome { reply: Reply::Shape(reply), has_min: wait == 0, stored }
}
