//! The stream of the last minutes: a sketch of the window that runs, and one of the window before. What is older is
//! forgotten a window at a time, so that every number is a count of something that can be said: this window and the last.

use std::hash::Hash;
use std::mem;
use std::time::{Duration, Instant};

use super::sketch::Sketch;

/// Counts what came in the window that runs and in the one before it. Counters whose windows began together can be put
/// together by [`Ranking::of`](super::Ranking::of).
#[derive(Debug, Clone)]
pub struct Recent<K> {
    window: Duration,
    began: Instant,
    /// When the window that runs ends.
    ends: Instant,
    current: Sketch<K>,
    before: Sketch<K>,
}

impl<K> Recent<K> {
    /// `n_counters` for each of the two windows; the first begins at `began`. A window has at least a millisecond.
    pub fn new(n_counters: u16, window: Duration, began: Instant) -> Self {
        let window = window.max(Duration::from_millis(1));
        let (current, before) = (Sketch::new(n_counters), Sketch::new(n_counters));
        Self { window, began, ends: began + window, current, before }
    }

    /// How long ago what is counted at `now` began: between one window and two, or less where the first is not over.
    pub fn covers(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.began);
        let left = self.ends.saturating_duration_since(now);
        since.min(self.window * 2 - left.min(self.window))
    }

    /// Goes on to the window that `now` is in. A time before it counts as its beginning.
    pub fn turn(&mut self, now: Instant) {
        if now < self.ends {
            return;
        }
        let late = now.duration_since(self.ends);
        mem::swap(&mut self.current, &mut self.before);
        self.current.clear();
        if late >= self.window {
            // Nothing came in the window that has just ended.
            self.before.clear();
        }
        let into_this = late.as_nanos() % self.window.as_nanos();
        self.ends = now + self.window - Duration::from_nanos(into_this as u64);
    }

    /// The sketches of both windows, as of the last turn.
    pub(super) fn sketches(&self) -> [&Sketch<K>; 2] {
        [&self.current, &self.before]
    }
}

impl<K: Hash + Eq + Clone> Recent<K> {
    /// Counts `weight` for `key` in the window that `now` is in.
    pub fn add(&mut self, key: &K, weight: u64, now: Instant) {
        self.turn(now);
        self.current.add(key, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    /// The weight in this window and in the one before.
    fn weights(recent: &Recent<&str>) -> [u64; 2] {
        recent.sketches().map(Sketch::total)
    }

    #[test]
    fn a_window_becomes_the_one_before_and_then_nothing() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut recent = Recent::new(4, WINDOW, began);
        recent.add(&"a", 1, at(59));
        recent.add(&"a", 2, at(60));
        assert_eq!(weights(&recent), [2, 1]);
        recent.turn(at(119));
        assert_eq!(weights(&recent), [2, 1]);
        recent.turn(at(120));
        assert_eq!(weights(&recent), [0, 2]);
        recent.add(&"a", 4, at(179));
        recent.turn(at(299));
        assert_eq!(weights(&recent), [0, 0]);
        // The windows stay where they were.
        recent.add(&"a", 8, at(299));
        recent.turn(at(300));
        assert_eq!(weights(&recent), [0, 8]);
    }

    #[test]
    fn who_comes_late_counts_in_the_window_that_runs() {
        let began = Instant::now();
        let mut recent = Recent::new(4, WINDOW, began);
        recent.add(&"a", 1, began + WINDOW);
        recent.add(&"a", 2, began);
        assert_eq!(weights(&recent), [3, 0]);
    }

    #[test]
    fn what_is_covered_is_one_window_to_two() {
        let began = Instant::now();
        let mut recent: Recent<&str> = Recent::new(4, WINDOW, began);
        for (seconds, covered) in [(0, 0), (10, 10), (60, 60), (119, 119), (120, 60), (150, 90), (1000, 100)]
        {
            let now = began + Duration::from_secs(seconds);
            recent.turn(now);
            assert_eq!(recent.covers(now), Duration::from_secs(covered), "{seconds}");
        }
    }
}
