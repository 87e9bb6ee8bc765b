//! Whether other sessions compete for one limit, whether they have asked for what idles here, and how often the store may be
//! asked because of that. It knows no subject.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::reply::Contention;

/// A contended limit is worth so many calls at once, and one more each time that this has passed. Beyond that it is asked for in
/// blocks and at intervals, so that a tenant at its limit costs the store no more than that.
const CALLS: u64 = 200;
const CALL_EVERY_US: u64 = 80_000;

/// Whether others compete for one limit.
#[derive(Debug, Default)]
pub(super) struct Contest {
    until_us: AtomicU64,
    /// Others have asked for what idles here, and it has not gone back yet.
    is_asked: AtomicBool,
    /// When all calls that were made are paid for.
    paid_us: AtomicU64,
}

/// What recalls have come to.
#[derive(Debug, Default)]
pub(super) struct RecallCounts {
    sent: AtomicU64,
    answered: AtomicU64,
    unanswered: AtomicU64,
    was_mute: AtomicBool,
}

impl Contest {
    /// Whether others compete for it.
    pub(super) fn is_on(&self, now_us: u64) -> bool {
        now_us < self.until_us.load(Ordering::Relaxed)
    }

    /// Takes over what the store said. The result is whether it said so for the first time in a while.
    pub(super) fn note(&self, contention: Contention, now_us: u64, until_us: u64) -> bool {
        if contention == Contention::None {
            return false;
        }
        let was_on = self.is_on(now_us);
        self.until_us.store(until_us, Ordering::Relaxed);
        !was_on
    }

    /// Others are short of it: what idles here has to go back.
    pub(super) fn ask(&self, until_us: u64) {
        self.until_us.store(until_us, Ordering::Relaxed);
        self.is_asked.store(true, Ordering::Release);
    }

    /// Whether that was said since the last call.
    pub(super) fn take_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire) && self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// Whether one more call may be made because of it; then that call is paid for.
    pub(super) fn pay(&self, now_us: u64) -> bool {
        let most_us = now_us + CALLS * CALL_EVERY_US;
        // A time further ahead is from before the clock went back.
        let paid_us = self.paid_us.load(Ordering::Relaxed).clamp(now_us, most_us);
        let has_credit = paid_us + CALL_EVERY_US <= most_us;
        self.paid_us.store(if has_credit { paid_us + CALL_EVERY_US } else { paid_us }, Ordering::Relaxed);
        has_credit
    }
}

impl RecallCounts {
    /// The store asked others for what idles with them.
    pub(super) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// This process was asked so, and answers.
    pub(super) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// The store's user may not ask others.
    pub(super) fn is_mute(&self) {
        self.unanswered();
        if !self.was_mute.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the store's user may not publish, so what idles at other routers is not recalled, and requests may be refused that \
                 have room: its access list needs +publish, +subscribe and the fleet's channels"
            );
        }
    }

    /// A request was refused though not all of them had answered.
    pub(super) fn unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// How many recalls this process caused, how many it answered, and how many requests were refused before all had.
    pub(super) fn read(&self) -> [u64; 3] {
        [&self.sent, &self.answered, &self.unanswered].map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_stays_contended_for_a_while_after_it_was_last_short() {
        let contest = Contest::default();
        assert!(!contest.note(Contention::None, 1, 9) && !contest.is_on(1));
        assert!(contest.note(Contention::Recalled, 1, 9) && !contest.note(Contention::Contended, 2, 10));
        assert!(contest.is_on(9) && !contest.is_on(10));
    }

    #[test]
    fn calls_because_of_a_contest_have_a_bound() {
        let (contest, now_us) = (Contest::default(), 1_790_000_000_000_000);
        assert_eq!((0..1_000).filter(|_| contest.pay(now_us)).count() as u64, CALLS);
        assert_eq!((0..1_000).filter(|_| contest.pay(now_us + 1_000_000)).count(), 12);
        assert!(!contest.pay(now_us), "a clock that went back gives nothing");
        assert!(contest.pay(now_us + CALL_EVERY_US), "and costs no more than the bound");
    }
}
