//! Whether a cell is believed to be up. A belief orders the cells of a shard; it never removes one.
//!
//! A cell goes down by a connect that failed, or by two failed probes in a row; it comes up by a good probe, or by
//! any answer but one that the cell has no room.
//! Without a probe the belief expires, since only traffic could tell otherwise.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a cell without a probe is believed down after a failed connect.
const EXPIRES: Duration = Duration::from_secs(2);

/// How many failed probes in a row make a cell down.
const FAILED_PROBES: u32 = 2;

/// One cell's health as this router sees it.
#[derive(Debug)]
pub(crate) struct Health {
    born: Instant,
    /// Milliseconds from `born` to when the cell went down, plus 1; 0 is up.
    down_since: AtomicU64,
    failed_probes: AtomicU32,
    probed: bool,
}

impl Health {
    pub(super) fn new(probed: bool) -> Self {
        Self { born: Instant::now(), down_since: AtomicU64::new(0), failed_probes: AtomicU32::new(0), probed }
    }

    /// Whether the cell is believed to be up at `now`.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        match self.down_since.load(Ordering::Relaxed) {
            0 => true,
            _ if self.probed => false,
            since => self.age(now).saturating_sub(since) >= EXPIRES.as_millis() as u64,
        }
    }

    /// A connect failed. Answers whether the belief changed.
    pub(crate) fn note_fault(&self, now: Instant) -> bool {
        let was_up = self.is_up(now);
        self.down_since.store(self.age(now), Ordering::Relaxed);
        was_up
    }

    /// The cell answered, and takes work. Answers whether the belief changed.
    pub(crate) fn note_answer(&self) -> bool {
        // The common case only reads, so that workers do not fight over the line.
        if self.down_since.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.down_since.swap(0, Ordering::Relaxed) != 0
    }

    /// A probe answered well or not. Answers whether the belief changed.
    pub(super) fn note_probe(&self, well: bool, now: Instant) -> bool {
        if well {
            self.failed_probes.store(0, Ordering::Relaxed);
            return self.note_answer();
        }
        let failed = self.failed_probes.fetch_add(1, Ordering::Relaxed) + 1;
        failed >= FAILED_PROBES && self.is_up(now) && self.note_fault(now)
    }

    fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.born).as_millis() as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connect_is_believed_until_an_answer_or_its_expiry() {
        let now = Instant::now();
        let health = Health::new(false);
        assert!(health.is_up(now));
        assert!(health.note_fault(now));
        assert!(!health.note_fault(now));
        assert!(!health.is_up(now + Duration::from_millis(1900)));
        assert!(health.is_up(now + Duration::from_millis(2100)));
        assert!(health.note_answer());
        assert!(health.is_up(now));
    }

    #[test]
    fn with_a_probe_only_a_probe_or_an_answer_brings_a_cell_back() {
        let now = Instant::now();
        let health = Health::new(true);
        assert!(!health.note_probe(false, now));
        assert!(health.note_probe(false, now));
        assert!(!health.is_up(now + Duration::from_secs(60)));
        assert!(health.note_probe(true, now));
        assert!(!health.note_probe(false, now), "one failed probe after a good one is not enough");
        assert!(health.is_up(now));
    }
}
