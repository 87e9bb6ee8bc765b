//! Routes that are let through evenly: for each the time at which the next request may go on. It knows no tenant: all of
//! them stand in one line.

use std::collections::HashMap;
use std::time::Duration;

use cofferdam_model::Rate;
use foldhash::fast::RandomState;

use crate::{RouteKey, ShapePolicy};

/// The most routes with a line: more than a fleet file has, so that lines of the file before it can run out.
const MAX_LINES: usize = 4096;

/// Every route's line.
#[derive(Default)]
pub(super) struct Shapes(HashMap<RouteKey, Line, RandomState>);

/// One route's line: when the next turn is, exactly, in 1/N microseconds of the rate.
#[derive(Clone, Copy)]
struct Line {
    next: u128,
    rate: Rate,
}

/// A turn that a request could have.
pub(super) struct Turn {
    at: u128,
    rate: Rate,
    /// How long until then.
    pub(super) delay: Duration,
}

impl Shapes {
    /// The next turn on `route`; or, where the line has no room, the time until it has.
    pub(super) fn look(&self, route: RouteKey, policy: ShapePolicy, now_us: u64) -> Result<Turn, Duration> {
        let rate = policy.rate();
        let (tokens, period) = (u128::from(rate.tokens()), u128::from(rate.period_us()));
        let now = u128::from(now_us) * tokens;
        let next = self.0.get(&route).map_or(0, |line| line.next_under(rate));
        let early = next.saturating_sub(now);
        let may_be_early = (policy.max_wait().as_micros() * tokens).min(u128::from(policy.depth()) * period);
        if early > may_be_early {
            return Err(micros((early - may_be_early).div_ceil(tokens)));
        }
        Ok(Turn { at: now + early, rate, delay: micros(early.div_ceil(tokens)) })
    }

    /// Takes a turn that [`Shapes::look`] has just offered.
    pub(super) fn take(&mut self, route: RouteKey, turn: &Turn, now_us: u64) {
        if self.0.len() >= MAX_LINES && !self.0.contains_key(&route) {
            self.make_room(now_us);
        }
        let next = turn.at + u128::from(turn.rate.period_us());
        self.0.insert(route, Line { next, rate: turn.rate });
    }

    /// Forgets the lines that are free, or else the one that is free first.
    #[cold]
    fn make_room(&mut self, now_us: u64) {
        let now_us = u128::from(now_us);
        self.0.retain(|_, line| line.next_us() > now_us);
        if self.0.len() >= MAX_LINES
            && let Some(first) = self.0.iter().min_by_key(|(_, line)| line.next_us()).map(|(route, _)| *route)
        {
            self.0.remove(&first);
        }
    }
}

impl Line {
    /// The same moment, rounded up, in the units of another rate.
    fn next_under(self, rate: Rate) -> u128 {
        if rate.tokens() == self.rate.tokens() {
            return self.next;
        }
        self.next_us() * u128::from(rate.tokens())
    }

    fn next_us(self) -> u128 {
        self.next.div_ceil(u128::from(self.rate.tokens()))
    }
}

fn micros(us: u128) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rate: &str, depth: u32, max_wait_ms: u64) -> ShapePolicy {
        ShapePolicy::new(rate.parse().unwrap(), depth, Duration::from_millis(max_wait_ms)).unwrap()
    }

    /// The delay in microseconds, taken; or the wait of a refusal.
    fn ask(shapes: &mut Shapes, route: u64, policy: ShapePolicy, now_us: u64) -> Result<u128, u128> {
        let turn = shapes.look(RouteKey(route), policy, now_us).map_err(|wait| wait.as_micros())?;
        shapes.take(RouteKey(route), &turn, now_us);
        Ok(turn.delay.as_micros())
    }

    #[test]
    fn turns_are_exact_where_a_turn_is_no_whole_microsecond() {
        let (mut shapes, policy) = (Shapes::default(), shape("7/s", 1_000, 60_000));
        let delays: Vec<_> = (0..15).map(|_| ask(&mut shapes, 1, policy, 5).unwrap()).collect();
        assert_eq!(delays[..3], [0, 142_858, 285_715]);
        assert_eq!((delays[7], delays[14]), (1_000_000, 2_000_000), "nothing adds up");
    }

    #[test]
    fn a_changed_rate_keeps_the_turns_that_were_given() {
        let mut shapes = Shapes::default();
        for _ in 0..4 {
            ask(&mut shapes, 1, shape("10/s", 10, 1_000), 0).unwrap();
        }
        assert_eq!(ask(&mut shapes, 1, shape("3/s", 10, 1_000), 0), Ok(400_000));
        // The next turn is 733,333 1/3 us away, and one may wait 333,333 1/3.
        assert_eq!(ask(&mut shapes, 1, shape("3/s", 1, 1_000), 0), Err(400_000));
    }

    #[test]
    fn lines_have_a_bound_and_the_first_to_be_free_makes_room() {
        let (mut shapes, policy) = (Shapes::default(), shape("1/s", 9, 9_000));
        for route in 0..2 * MAX_LINES as u64 {
            // The longer a line, the later it is free.
            for _ in 0..=(route % 2) {
                ask(&mut shapes, route, policy, 0).unwrap();
            }
        }
        assert_eq!(shapes.0.len(), MAX_LINES);
        ask(&mut shapes, 1_000_000, policy, 3_000_000).unwrap();
        assert_eq!(shapes.0.len(), 1, "the free ones are forgotten together");
    }
}
