//! How far a release is where one router has it to itself: counted by its own monotonic clock.

use std::time::Instant;

use cofferdam_limits::redis::{ReleaseName, ReleaseProgress};

/// A slot is so many parts: at one slot a minute a part comes loose each microsecond, so a change of the rate loses none.
const PARTS: u128 = 60_000_000;

/// One release.
#[derive(Debug)]
pub(super) struct Alone {
    pub(super) name: ReleaseName,
    /// Parts let loose before `since`.
    base: u128,
    since: Instant,
    per_minute: u32,
    n_orders: u32,
}

impl Alone {
    /// A release that is as far as is known of it.
    pub(super) fn begin(name: ReleaseName, known: ReleaseProgress, per_minute: u32, now: Instant) -> Self {
        let base = u128::from(known.n_loose) * PARTS;
        Self { name, base, since: now, per_minute, n_orders: known.n_orders }
    }

    pub(super) fn progress(&self, now: Instant) -> ReleaseProgress {
        let n_loose = u32::try_from(self.parts(now) / PARTS).unwrap_or(u32::MAX);
        ReleaseProgress { n_loose, n_orders: self.n_orders }
    }

    /// Goes on at so many slots a minute from now on.
    pub(super) fn take_rate(&mut self, per_minute: u32, now: Instant) {
        if per_minute != self.per_minute {
            self.count_from(now);
            self.per_minute = per_minute;
        }
    }

    pub(super) fn stop(&mut self, now: Instant) {
        if !self.is_stopped() {
            self.order(now);
        }
    }

    pub(super) fn go(&mut self, now: Instant) {
        if self.is_stopped() {
            self.order(now);
        }
    }

    fn order(&mut self, now: Instant) {
        self.count_from(now);
        self.n_orders += 1;
    }

    fn is_stopped(&self) -> bool {
        ReleaseProgress { n_loose: 0, n_orders: self.n_orders }.is_stopped()
    }

    fn count_from(&mut self, now: Instant) {
        (self.base, self.since) = (self.parts(now), now);
    }

    fn parts(&self, now: Instant) -> u128 {
        let counted =
            if self.is_stopped() { 0 } else { now.saturating_duration_since(self.since).as_micros() };
        self.base + counted * u128::from(self.per_minute)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn name() -> ReleaseName {
        ReleaseName { digest: "aa".to_owned(), began: 1 }
    }

    #[test]
    fn slots_come_loose_by_the_minute_and_a_stop_freezes_them() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut alone = Alone::begin(name(), ReleaseProgress::default(), 60, begun);
        let n_loose = |alone: &Alone, seconds| alone.progress(at(seconds)).n_loose;
        assert_eq!((n_loose(&alone, 0), n_loose(&alone, 90)), (0, 90));
        alone.stop(at(100));
        alone.stop(at(200));
        assert_eq!(alone.progress(at(900)), ReleaseProgress { n_loose: 100, n_orders: 1 });
        alone.go(at(1000));
        alone.go(at(1500));
        assert_eq!(alone.progress(at(1010)), ReleaseProgress { n_loose: 110, n_orders: 2 });
        alone.take_rate(u32::MAX, at(1010));
        assert_eq!(n_loose(&alone, 100_000), u32::MAX);
    }

    #[test]
    fn a_changed_budget_counts_from_its_change_on() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut alone = Alone::begin(name(), ReleaseProgress::default(), 60, begun);
        alone.take_rate(6000, at(90));
        assert_eq!(alone.progress(at(90)).n_loose, 90);
        assert_eq!(alone.progress(at(91)).n_loose, 190);
        alone.take_rate(1, at(91));
        assert_eq!(alone.progress(at(151)).n_loose, 191);
    }

    /// What happens to a release.
    #[derive(Debug, Clone)]
    enum Event {
        Wait(u64),
        Rate(u32),
        Stop,
        Go,
        /// The process ends, and the next one knows what was told last.
        Restart,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            5 => (0..300_000_000_u64).prop_map(Event::Wait),
            2 => (1..3000_u32).prop_map(Event::Rate),
            2 => Just(Event::Stop),
            2 => Just(Event::Go),
            1 => Just(Event::Restart),
        ];
        vec(event, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_happens_no_slot_goes_back_none_is_early_and_none_moves_while_it_is_stopped(
            events in events()
        ) {
            let (mut now, mut rate) = (Instant::now(), 60);
            let mut alone = Alone::begin(name(), ReleaseProgress::default(), rate, now);
            // Plainly: parts of a slot, those that the budgets have allowed, and whether it is stopped.
            let (mut parts, mut allowed, mut is_stopped) = (0_u128, 0_u128, false);
            for event in events {
                let before = alone.progress(now);
                match event {
                    Event::Wait(us) => {
                        now += Duration::from_micros(us);
                        let grown = if is_stopped { 0 } else { u128::from(us) * u128::from(rate) };
                        (parts, allowed) = (parts + grown, allowed + grown);
                    }
                    Event::Rate(per_minute) => {
                        alone.take_rate(per_minute, now);
                        rate = per_minute;
                    }
                    Event::Stop | Event::Go => {
                        is_stopped = matches!(event, Event::Stop);
                        if is_stopped { alone.stop(now) } else { alone.go(now) }
                    }
                    Event::Restart => {
                        alone = Alone::begin(name(), before, rate, now);
                        parts -= parts % PARTS;
                    }
                }
                let after = alone.progress(now);
                prop_assert!(after.n_loose >= before.n_loose, "back from {before:?} to {after:?}");
                prop_assert!(u128::from(after.n_loose) * PARTS <= allowed, "{after:?} within {allowed}");
                prop_assert_eq!((u128::from(after.n_loose), after.is_stopped()), (parts / PARTS, is_stopped));
            }
        }
    }
}
