//! Whether a server answers in time: a breaker for each, so that few requests ever wait for one that does not, and those of
//! the other servers of a cluster notice nothing. It knows no connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Late answers further apart than this have nothing to do with each other, in microseconds.
const APART_US: u64 = 1_000_000;

/// One server's breaker. It opens where nothing was in time for as long as a request may wait, or where no answer will ever
/// come, and closes at the next answer that is in time: asking goes on beside the requests, so nobody has to be sent ahead to
/// try.
#[derive(Debug)]
pub(super) struct Breaker {
    is_away: AtomicBool,
    /// Whether nobody is behind it who could answer.
    is_nobodys: bool,
    /// When the first of those was late that were since anything was in time; 0 where none was.
    late_since_us: AtomicU64,
    /// Calls on their way to it.
    n_calls: AtomicUsize,
    tally: Arc<Tally>,
}

/// What the breakers of all servers have done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    n_opened: AtomicU64,
    n_closed: AtomicU64,
    /// Those that went for good while they were open.
    n_left: AtomicU64,
}

impl Breaker {
    /// A server that nothing is known of yet.
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        let (is_away, late_since_us) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { is_away, is_nobodys: false, late_since_us, n_calls: AtomicUsize::new(0), tally }
    }

    /// Nobody, who is always away. An answer that comes where it once was says nothing of where it is now.
    pub(super) fn nobody() -> Self {
        let mut nobody = Self::new(Arc::default());
        nobody.is_nobodys = true;
        nobody.gone();
        nobody
    }

    /// Whether requests go on without waiting for it.
    #[inline]
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// An answer is late: one alone says little of a server.
    pub(super) fn late(&self, now_us: u64, budget_us: u64) {
        let since_us = self.late_since_us.load(Ordering::Relaxed);
        match now_us.saturating_sub(since_us) {
            late_us if since_us == 0 || late_us > APART_US.max(2 * budget_us) => {
                self.late_since_us.store(now_us, Ordering::Relaxed);
            }
            late_us if late_us >= budget_us => self.gone(),
            _ => {}
        }
    }

    /// An answer will never come.
    pub(super) fn gone(&self) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            self.tally.n_opened.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An answer came after so long.
    pub(super) fn answered_after(&self, took_us: u64, budget_us: u64) {
        if took_us <= budget_us {
            self.answered();
        }
    }

    /// An answer was in time.
    fn answered(&self) {
        if self.is_nobodys {
            return;
        }
        if self.late_since_us.load(Ordering::Relaxed) != 0 {
            self.late_since_us.store(0, Ordering::Relaxed);
        }
        if self.is_away.load(Ordering::Relaxed) && self.is_away.swap(false, Ordering::Relaxed) {
            self.tally.n_closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many calls are on their way to it.
    pub(super) fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::Relaxed)
    }

    /// A call goes to it.
    pub(super) fn call_begins(&self) {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A call is over, one way or another.
    pub(super) fn call_ends(&self) {
        self.n_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Breaker {
    /// A server that left a cluster is not away any more, and did not come back either.
    fn drop(&mut self) {
        if *self.is_away.get_mut() {
            self.tally.n_left.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tally {
    /// How often a server has been given up so far.
    pub(super) fn n_opened(&self) -> u64 {
        self.n_opened.load(Ordering::Relaxed)
    }

    /// How often one has come back so far.
    pub(super) fn n_closed(&self) -> u64 {
        self.n_closed.load(Ordering::Relaxed)
    }

    /// How many servers are away now.
    pub(super) fn n_away(&self) -> u64 {
        // Opened is read last, so that one that closes meanwhile is not counted below zero.
        let n_over = self.n_closed() + self.n_left.load(Ordering::Relaxed);
        self.n_opened().saturating_sub(n_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_answer_opens_nothing_and_nothing_in_time_for_as_long_as_one_may_wait_does() {
        let tally = Arc::<Tally>::default();
        let breaker = Breaker::new(Arc::clone(&tally));
        let late = |now_us| {
            breaker.late(now_us, 5_000);
            breaker.is_away()
        };
        // Many that waited for the same answer are late together.
        assert!(!late(10_000) && !late(10_001) && !late(14_999));
        breaker.answered();
        assert!(!late(15_000) && !late(19_999) && late(20_000));
        assert_eq!((tally.n_opened(), tally.n_away()), (1, 1));
        breaker.answered();
        assert!(!breaker.is_away());
        assert!(!late(100_000) && !late(2_000_000), "long ago, and nobody has asked since");
        breaker.gone();
        assert_eq!((tally.n_opened(), tally.n_closed(), tally.n_away()), (2, 1, 1));
        drop(breaker);
        assert_eq!((tally.n_closed(), tally.n_away()), (1, 0), "it is gone, and nobody came back");
    }

    #[test]
    fn nobody_never_comes_back() {
        let nobody = Breaker::nobody();
        nobody.answered_after(1, 5_000);
        assert!(nobody.is_away());
    }
}
