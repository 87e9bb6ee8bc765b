//! The store's clock, as far as this router knows it: ends are judged by it, so that they are the same at every router.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that differs from the store's by more makes no changes: it is set wrong, and so may be what else is decided by it.
const MOST_APART: Duration = Duration::from_secs(1);

/// How far the store's clock is ahead of this machine's; by nothing, where there is no store or it was never heard of.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    ahead_ms: AtomicI64,
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
        self.note_at(question.asked_ms, here_ms(), store_ms);
    }

    fn note_at(&self, asked_ms: u64, answered_ms: u64, store_ms: u64) {
        let middle_ms = asked_ms + answered_ms.saturating_sub(asked_ms) / 2;
        let ahead_ms = i64::try_from(store_ms.abs_diff(middle_ms)).unwrap_or(i64::MAX);
        self.ahead_ms.store(if store_ms < middle_ms { -ahead_ms } else { ahead_ms }, Ordering::Relaxed);
    }

    /// Refuses where the two clocks are too far apart.
    pub(super) fn check(&self) -> Result<(), ClockError> {
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        let apart = Duration::from_millis(ahead_ms.unsigned_abs());
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
            (10_000, 10_200, 11_101, Some("this router's clock is 1.001s behind the store's")),
            (10_000, 10_000, 8_999, Some("this router's clock is 1.001s ahead of the store's")),
        ] {
            let clock = StoreClock::default();
            clock.note_at(asked, answered, store);
            let error = clock.check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), told.is_some(), "{error:?}");
            assert!(told.is_none_or(|told| error.unwrap().starts_with(told)));
        }
        let clock = StoreClock::default();
        clock.note(clock.ask(), here_ms() + 60_000);
        assert!(clock.now_ms().abs_diff(here_ms() + 60_000) < 5_000);
    }
}
