//! Quotas through the script: two counters that slide, beside the fixed window that they mend and the log that they stand
//! in for.

use std::time::Duration;

use cofferdam_limits::redis::{Dealing, Op, Reply, Report, Room, Window, WindowReply};

use super::{Held, START_US, seq};

const DAY_S: u32 = 86_400;
const MONTH_S: u32 = 30 * DAY_S;

impl Held {
    fn window(&mut self, session: char, op: Window) -> WindowReply {
        let key = self.names.window(op.window_s);
        let Reply::Window(reply) = self.one(session, &key, Op::Window(op)) else { panic!() };
        reply
    }

    /// Moves the clock to so many seconds after the first window that begins after the start.
    fn at_s(&mut self, window_s: u32, s: u64) {
        let window_us = u64::from(window_s) * 1_000_000;
        self.now_us = (START_US / window_us + 1) * window_us + s * 1_000_000;
    }

    /// Takes as many of `want` single ones as pass.
    fn take_singly(&mut self, want: usize, op: Window) -> usize {
        (0..want).filter(|_| self.window('a', op).granted == 1).count()
    }
}

fn quota(window_s: u32, limit: u64, cost: u32) -> Window {
    Window { window_s, limit, report: Report::NOTHING, want: cost, min: cost, dealing: Dealing::PLAIN }
}

fn in_us(us: u64) -> Room {
    Room::In(Duration::from_micros(us))
}

/// One counter for each window.
#[derive(Default)]
struct FixedWindow(u64, usize);

impl FixedWindow {
    fn take_singly(&mut self, want: usize, s: u64) -> usize {
        if self.0 != s / 60 {
            *self = Self(s / 60, 0);
        }
        let passed = want.min(10 - self.1);
        self.1 += passed;
        passed
    }
}

/// Every request of the last window.
#[derive(Default)]
struct SlidingLog(Vec<u64>);

impl SlidingLog {
    fn take_singly(&mut self, want: usize, s: u64) -> usize {
        self.0.retain(|at| at + 60 > s);
        let passed = want.min(10 - self.0.len());
        self.0.extend(vec![s; passed]);
        passed
    }
}

// P43
#[test]
fn a_fixed_window_spends_twice_at_its_edge_and_the_sliding_window_and_the_log_do_not() {
    let (mut held, mut fixed, mut log) = (Held::start(), FixedWindow::default(), SlidingLog::default());
    let mut passed = |s| {
        held.at_s(60, s);
        let ours = held.take_singly(12, quota(60, 10, 1));
        [fixed.take_singly(12, s), ours, log.take_singly(12, s)]
    };
    assert_eq!(passed(59), [10, 10, 10]);
    assert_eq!(passed(60), [10, 0, 0], "20 within two seconds");
    // The counters take what the last window used as spread over it: half of it is gone half a window later, where the log
    // still knows better.
    assert_eq!(passed(90), [0, 5, 0]);
    assert_eq!(passed(119), [0, 4, 10]);
}

// P54
#[test]
fn a_quota_for_a_day_and_one_for_a_month_slide() {
    for (window_s, limit) in [(DAY_S, 1_000), (MONTH_S, 1_000_000)] {
        let mut held = Held::start();
        let take = |held: &mut Held, s, cost| {
            held.at_s(window_s, s);
            held.window('a', quota(window_s, limit, cost))
        };
        let half = u64::from(window_s) / 2;
        let all = take(&mut held, half, limit as u32);
        assert_eq!((u64::from(all.granted), all.used), (limit, limit));
        assert_eq!(take(&mut held, half, limit as u32 + 1).room, Room::Never);
        // Nothing passes until one of it has faded, which is a part of the next window.
        let part = u64::from(window_s).div_ceil(limit);
        let refused = take(&mut held, half, 1);
        assert_eq!((refused.granted, refused.room), (0, in_us((half + part) * 1_000_000)));
        assert_eq!(take(&mut held, 2 * half, 1).granted, 0);
        assert_eq!(take(&mut held, 3 * half, (limit / 2) as u32).granted, (limit / 2) as u32);
        assert_eq!(take(&mut held, 3 * half, 1).granted, 0);
        // Two windows later nothing is left, and the key is gone.
        assert_eq!(take(&mut held, 8 * half, 0).used, 0);
        let key = held.names.window(window_s);
        assert!(!held.exists(&key));
    }
}

#[test]
fn the_wait_is_exact_to_the_second_in_which_it_passes() {
    let mut held = Held::start();
    for (at, cost) in [(10, 3), (20, 7), (100, 6), (190, 7)] {
        held.at_s(60, at);
        let asked = held.window('a', quota(60, 7, cost));
        if let Room::In(wait) = asked.room {
            held.now_us += wait.as_micros() as u64 - 1;
            assert_eq!(held.window('a', quota(60, 7, cost)).room, in_us(1));
            held.now_us += 1;
            assert_eq!(held.window('a', quota(60, 7, cost)).granted, cost);
        }
    }
    // Between two seconds: elapsed time is rounded down.
    held.at_s(60, 1_000);
    held.window('a', quota(60, 6, 6));
    held.at_s(60, 1_020);
    held.now_us += 500_000;
    assert_eq!(held.window('a', quota(60, 6, 1)).room, in_us(9_500_000));
}

#[test]
fn a_clock_that_goes_back_waits_for_the_window_or_keeps_the_counts() {
    let mut held = Held::start();
    held.at_s(60, 61);
    held.window('a', quota(60, 10, 10));
    held.at_s(60, 59);
    let refused = held.window('a', quota(60, 10, 1));
    assert_eq!((refused.granted, refused.used, refused.room), (0, 10, in_us(67_000_000)));
    held.now_us -= 600_000_000;
    assert_eq!(held.window('a', quota(60, 10, 1)).used, 10);
}

fn lease(number: u64, held: u32, spent: i64, want: u32) -> Window {
    let report = Report::Account { seq: seq(number), held, spent };
    Window { window_s: 60, limit: 10, report, want, min: 0, dealing: Dealing::PLAIN }
}

#[test]
fn what_a_lease_gives_back_counts_no_more() {
    let mut held = Held::start();
    held.at_s(60, 0);
    let granted = held.window('a', lease(1, 0, 0, 6));
    assert_eq!((granted.granted, granted.used, granted.outstanding), (6, 6, 6));
    let back = held.window('a', lease(2, 1, 2, 0));
    assert_eq!((back.used, back.outstanding), (3, 1));
    assert_eq!(held.window('a', lease(2, 0, 9, 5)), WindowReply { granted: 0, ..back }, "equal");
    assert!(held.window('a', lease(1, 0, 9, 5)).stale);
    // Settled beyond what was granted; and given back below what had been spent.
    assert_eq!(held.window('a', lease(3, 0, 12, 0)).used, 12);
    assert_eq!(held.window('a', lease(4, 0, 4, 0)).used, 4);
    // An account that is not there is registered; what it holds is used.
    held.wipe();
    assert_eq!(held.window('a', lease(5, 3, 4, 0)).used, 3);
}

#[test]
fn what_is_outstanding_moves_into_the_window_in_which_it_may_be_spent() {
    let mut held = Held::start();
    held.at_s(60, 58);
    held.window('a', lease(1, 0, 0, 6));
    held.window('b', lease(1, 0, 0, 4));
    held.at_s(60, 62);
    // Four of b's are spent, six of a's are not: six count in full, and four fade.
    held.window('b', lease(2, 0, 4, 0));
    held.at_s(60, 63);
    held.window('a', lease(2, 6, 0, 0));
    held.at_s(60, 90);
    let later = held.window('c', Window { limit: 20, ..lease(1, 0, 0, 0) });
    assert_eq!((later.used, later.outstanding), (10, 0));
}

#[test]
fn a_report_that_comes_after_its_account_ended_is_charged_once() {
    let mut held = Held::start();
    held.window('a', lease(1, 0, 0, 10));
    held.at(7_000_000);
    assert_eq!(held.window('b', lease(1, 0, 0, 0)).used, 10, "what was held counts as spent");
    // Six were not spent, and the same call again changes nothing.
    for _ in 0..2 {
        let back = held.window('a', lease(2, 0, 4, 0));
        assert_eq!((back.used, back.outstanding), (4, 0));
    }
    let late = held.window('a', lease(1, 0, 0, 10));
    assert_eq!((late.stale, late.granted, late.used), (true, 0, 4));
}
