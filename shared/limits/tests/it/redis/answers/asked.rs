//! Operations at random, small enough to meet each other, and now and then beyond every bound.

use std::time::Duration;

use cofferdam_limits::redis::{Dealing, Keeps, Op, Permits, Report, Shape, Tokens, Window};
use proptest::prelude::*;

use crate::redis::model::Step;
use crate::redis::{Names, bucket, seq};

/// Whether the limits of a key may be others at each call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limits {
    Change,
    Stay,
}

/// One operation, with numbers that become an operation in its call.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    kind: Kind,
    is_grouped: bool,
    which: usize,
    /// How many calls ago its seq was the newest one.
    age: u64,
    has_account: bool,
    held: u32,
    spent: i64,
    want: u32,
    min: u32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Permits,
    Tokens,
    RouteTokens,
    Window,
    Shape,
}

const BUCKETS: [(&str, u64); 8] = [
    ("5/s", 10),
    ("3/s", 10),
    ("7/min", 7),
    ("1/us", 5),
    ("1000/s", 100),
    ("7/d", 104_249),
    ("1/7us", 3),
    ("999999937/s", 50),
];

pub(super) fn ask() -> impl Strategy<Value = Ask> {
    let kinds = &[Kind::Permits, Kind::Tokens, Kind::RouteTokens, Kind::Window, Kind::Shape][..];
    let what = (prop::sample::select(kinds), any::<bool>(), 0_usize..8, 0_u64..24, any::<bool>());
    let numbers = (0_u32..280, -400_i64..400, 0_u32..150, 0_u32..100);
    (what, numbers).prop_map(|((kind, is_grouped, which, age, has_account), (held, spent, want, min))| Ask {
        kind,
        is_grouped,
        which,
        age: age.saturating_sub(12),
        has_account,
        held: small_or(held, 14, 20),
        spent: match spent {
            -200..=200 => 0,
            small if small % 20 != 0 => small % 30,
            large => large << 32,
        },
        want: small_or(want, 14, 10),
        min: if min < 50 { 0 } else { small_or(min, 5, 20) },
    })
}

/// One of `n` small numbers; in one of `rare` cases a large one.
fn small_or(number: u32, n: u32, rare: u32) -> u32 {
    if (number / n) % rare == rare - 1 { u32::MAX - number } else { number % n }
}

/// The steps of the `nth` call. Those that are grouped come first, each key once.
pub(super) fn steps(asks: &[Ask], names: &Names, limits: Limits, nth: u64) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for is_grouped in [true, false] {
        for ask in asks.iter().filter(|ask| ask.is_grouped == is_grouped) {
            let (key, op) = ask.step(names, limits, nth);
            if !steps.iter().any(|(_, before, _)| *before == key) {
                steps.push((u32::from(is_grouped), key, op));
            } else if let Op::Permits(op) = op {
                // A second operation on a key goes on from what the first one left.
                steps.push((0, key, Op::Permits(Permits { held: None, seq: seq(op.seq.get() + 1), ..op })));
            } else {
                steps.push((0, key, op));
            }
        }
    }
    steps.sort_by_key(|(group, ..)| *group == 0);
    steps
}

impl Ask {
    /// What it needs, takes at most and keeps, out of the numbers at hand.
    fn dealing(&self) -> Dealing {
        let keeps = [Keeps::Nothing, Keeps::Spare, Keeps::Returned][self.which % 3];
        let need = if self.which < 4 { self.want } else { self.want / 2 * (self.which as u32 % 2) };
        Dealing { need, parts: [1, 1, 4, 8][self.held as usize % 4], keeps }
    }

    fn step(&self, names: &Names, limits: Limits, nth: u64) -> (cofferdam_limits::redis::Key, Op) {
        let (which, min, want) = (self.which, self.min, self.want);
        let dealing = self.dealing();
        let pick = |fixed| if limits == Limits::Change { which } else { fixed };
        let number = seq((2 * nth + 1).saturating_sub(2 * self.age).max(1));
        let report = match self.has_account {
            true => Report::Account { seq: number, held: self.held, spent: self.spent },
            false => Report::Spent(self.spent),
        };
        let tokens = |fixed| {
            let (rate, capacity) = BUCKETS[pick(fixed)];
            Op::Tokens(Tokens { bucket: bucket(rate, capacity), report, want, min, dealing })
        };
        match self.kind {
            Kind::Permits => {
                let op =
                    Permits { limit: which as u32, seq: number, held: Some(self.held), want, min, dealing };
                (names.permits(), Op::Permits(op))
            }
            Kind::Tokens => (names.tokens(), tokens(0)),
            Kind::RouteTokens => (names.route_tokens(), tokens(6)),
            Kind::Window => {
                let window_s = [3, 10][which % 2];
                let limit = if want > 14 { 1 << 36 } else { 1 + 3 * which as u64 };
                (names.window(window_s), Op::Window(Window { window_s, limit, report, want, min, dealing }))
            }
            Kind::Shape => {
                let rate = BUCKETS[pick(1) % 3].0.parse().unwrap();
                let max_wait = Duration::from_micros(u64::from(self.held) * 200_000);
                // A shape is at home in a slot of its own; here it has a name that nobody else has.
                (names.window(1), Op::Shape(Shape { rate, depth: self.which as u32 % 5, max_wait }))
            }
        }
    }
}
