//! The store's clock, as far as this router knows it: ends are judged by it, so that they are the same at every router.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A clock that differs from the store's by more makes no changes: it is set wrong, and so may be what else is decided by it.
const MOST_APART: Duration = Duration::from_secs(1);

/// After so long an estimate gives way to a less certain one: clocks drift.
const OLD: Duration = Duration::from_secs(10);

/// How far the store's clock is ahead of this machine's; by nothing, where there is no store or it was never heard of.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    ahead_ms: AtomicI64,
    estimate: Mutex<Option<Estimate>>,
}

/// What one answer says of the store's clock.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    ahead_ms: i64,
    /// It may be as much more or less: half of the time that the answer took.
    unsure_ms: u64,
    at: Instant,
}

impl Estimate {
    /// Whether it is better to know this than `older`: it is as certain, or that is old, or both cannot be true, so that a clock
    /// was set meanwhile.
    fn replaces(self, older: Self) -> bool {
        let apart_ms = self.ahead_ms.abs_diff(older.ahead_ms);
        self.unsure_ms <= older.unsure_ms
            || self.at.saturating_duration_since(older.at) >= OLD
            || apart_ms > self.unsure_ms.saturating_add(older.unsure_ms)
    }
}

/// The clocks differ by too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this router's clock is {apart:?} {way} the store's, and may be 1s apart: nothing was changed")]
pub(crate) struct ClockError {
    apart: Duration,
    way: &'static str,
}

/// This machine's time of day, in milliseconds since 1970.
fn here_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// When the store was asked for its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    asked_ms: u64,
}

impl StoreClock {
    /// The store's time of day, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        here_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Begins to ask.
    pub(super) fn ask(&self) -> Question {
        Question { asked_ms: here_ms() }
    }

    /// Takes note of an answer, which stands for the middle of the time that it took.
    pub(super) fn note(&self, question: Question, store_ms: u64) {
        self.note_at(question.asked_ms, here_ms(), store_ms, Instant::now());
    }

    fn note_at(&self, asked_ms: u64, answered_ms: u64, store_ms: u64, at: Instant) {
        let unsure_ms = answered_ms.saturating_sub(asked_ms).div_ceil(2);
        let middle_ms = asked_ms + unsure_ms;
        let ahead_ms = i64::try_from(store_ms.abs_diff(middle_ms)).unwrap_or(i64::MAX);
        let ahead_ms = if store_ms < middle_ms { -ahead_ms } else { ahead_ms };
        let new = Estimate { ahead_ms, unsure_ms, at };
        let mut estimate = self.estimate.lock();
        if estimate.is_none_or(|older| new.replaces(older)) {
            *estimate = Some(new);
            self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
        }
    }

    /// Refuses where the two clocks are too far apart, however long the answer took that says so.
    pub(super) fn check(&self) -> Result<(), ClockError> {
        let Some(Estimate { ahead_ms, unsure_ms, .. }) = *self.estimate.lock() else { return Ok(()) };
        let apart = Duration::from_millis(ahead_ms.unsigned_abs().saturating_sub(unsure_ms));
        if apart <= MOST_APART {
            return Ok(());
        }
        Err(ClockError { apart, way: if ahead_ms > 0 { "behind" } else { "ahead of" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_more_than_a_second_apart_are_told_and_less_is_reckoned_with() {
        for (asked, answered, store, told) in [
            (10_000, 10_100, 10_050, None),
            (10_000, 10_000, 11_000, None),
            (10_000, 10_000, 9_000, None),
            (10_000, 10_200, 11_201, Some("this router's clock is 1.001s behind the store's")),
            (10_000, 10_000, 8_999, Some("this router's clock is 1.001s ahead of the store's")),
            // A process that stood still for three seconds: the store may have answered at once, or at the end.
            (10_000, 13_000, 10_000, None),
            (10_000, 13_000, 13_000, None),
            (10_000, 13_000, 14_000, None),
            (10_000, 13_000, 14_001, Some("this router's clock is 1.001s behind the store's")),
            (10_000, 13_000, 8_999, Some("this router's clock is 1.001s ahead of the store's")),
        ] {
            let clock = StoreClock::default();
            clock.note_at(asked, answered, store, Instant::now());
            let error = clock.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), told.is_some(), "{error:?}");
            assert!(told.is_none_or(|told| error.unwrap().starts_with(told)));
        }
        let clock = StoreClock::default();
        assert_eq!(clock.check(), Ok(()));
        clock.note(clock.ask(), here_ms() + 60_000);
        assert!(clock.now_ms().abs_diff(here_ms() + 60_000) < 5_000);
    }

    #[test]
    fn a_less_certain_answer_replaces_a_better_one_only_where_that_is_old_or_cannot_be_true_any_more() {
        for (after_s, took_ms, store_ms, ahead_ms) in [
            // The store's time is that of the beginning, and the middle is 1.5 s later.
            (1, 3_000, 20_000, 40),
            (9, 3_000, 23_000, 40),
            (10, 3_000, 20_000, -1_500),
            (1, 100, 20_000, -50),
            // A clock was set.
            (1, 3_000, 30_000, 8_500),
        ] {
            let (clock, begun) = (StoreClock::default(), Instant::now());
            clock.note_at(10_000, 10_100, 10_090, begun);
            clock.note_at(20_000, 20_000 + took_ms, store_ms, begun + Duration::from_secs(after_s));
            assert_eq!(clock.ahead_ms.load(Ordering::Relaxed), ahead_ms, "{after_s} {took_ms} {store_ms}");
        }
    }
}
