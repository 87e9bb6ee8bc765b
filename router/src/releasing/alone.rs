//! How far a release is where one router has it to itself: counted by its own monotonic clock.

use std::time::Instant;

/// One release.
#[derive(Debug)]
pub(super) struct Alone {
    /// What it leads to.
    pub(super) digest: String,
    /// Slots let loose before `since`.
    base: u32,
    /// None while it is stopped.
    since: Option<Instant>,
}

impl Alone {
    pub(super) fn begin(digest: String, now: Instant) -> Self {
        Self { digest, base: 0, since: Some(now) }
    }

    /// How many slots are loose, at so many a minute.
    pub(super) fn n_loose(&self, per_minute: u32, now: Instant) -> u32 {
        let grown = self.since.map_or(0, |since| {
            now.saturating_duration_since(since).as_micros() * u128::from(per_minute) / 60_000_000
        });
        u32::try_from(grown).unwrap_or(u32::MAX).saturating_add(self.base)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn stop(&mut self, per_minute: u32, now: Instant) {
        self.base = self.n_loose(per_minute, now);
        self.since = None;
    }

    pub(super) fn go(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn slots_come_loose_by_the_minute_and_a_stop_freezes_them() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut alone = Alone::begin("aa".to_owned(), begun);
        assert_eq!(
            (alone.n_loose(60, at(0)), alone.n_loose(60, at(90)), alone.n_loose(1, at(90))),
            (0, 90, 1)
        );
        alone.stop(60, at(100));
        assert!(alone.is_stopped());
        assert_eq!(alone.n_loose(60, at(900)), 100);
        alone.go(at(1000));
        alone.go(at(1500));
        assert_eq!(alone.n_loose(60, at(1010)), 110);
        assert_eq!(alone.n_loose(u32::MAX, at(100_000)), u32::MAX);
    }
}
