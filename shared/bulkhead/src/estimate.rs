//! How long places are held, as moving estimates, and what a queue reckons from them: how long a wait will be, and
//! whether a queue stands. It knows no tenant and reads no clock.

use std::time::Duration;

use tokio::time::Instant;

/// What a request is taken to cost while nothing was measured: all alike.
const NOMINAL_US: u32 = 1000;

/// A queue's target wait, as a part of `max_wait`: CoDel's 5 ms of 100 ms.
const TARGET_PART: u32 = 20;

/// How many times the estimate one measurement counts at most.
const OUTLIER: u32 = 4;

/// A moving estimate of how long a place is held, in microseconds: each measurement moves it by an eighth of the
/// difference, and counts for four times the estimate at most, so that one that hung does not make all waits look
/// hopeless. 0 while nothing was measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hold(u32);

/// Since when a queue has been standing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ageing {
    /// The last moment at which nobody waited for class or cell, or a place was given within the target.
    good: Option<Instant>,
    /// Until when newcomers' patience is short.
    short_until: Option<Instant>,
}

impl Hold {
    pub(crate) const NOTHING: Self = Self(0);

    /// Takes in a measurement.
    pub(crate) fn measure(&mut self, hold_us: u32) {
        let hold_us = hold_us.max(1);
        self.0 = match self.0 {
            0 => hold_us,
            before => {
                let counted = hold_us.min(before.saturating_mul(OUTLIER));
                let moved = i64::from(before) + (i64::from(counted) - i64::from(before)) / 8;
                // Between the two, so it fits; and it grows where an eighth is nothing.
                (moved as u32).max(if counted > before { before + 1 } else { 1 })
            }
        };
    }

    /// The estimate, if anything was measured.
    pub(crate) fn known(self) -> Option<u32> {
        (self.0 > 0).then_some(self.0)
    }

    /// The estimate, or `other`'s, or what all cost alike.
    pub(crate) fn or(self, other: Self) -> u32 {
        self.known().or(other.known()).unwrap_or(NOMINAL_US)
    }

    /// How long it takes until `n` more places have come free where `places` are held all the time; nothing where
    /// that is not known.
    pub(crate) fn wait(self, n: u64, places: u32) -> Duration {
        let us = n.saturating_mul(u64::from(self.0)) / u64::from(places.max(1));
        Duration::from_micros(us)
    }
}

/// A duration in whole microseconds, as far as 32 bits go (71 minutes).
pub(crate) fn in_us(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

impl Ageing {
    /// Nobody waits for class or cell.
    pub(crate) fn idle(&mut self, now: Instant) {
        self.good = Some(now);
    }

    /// A place was given after a wait.
    pub(crate) fn granted(&mut self, waited: Duration, max_wait: Duration, now: Instant) {
        if waited.saturating_mul(TARGET_PART) <= max_wait {
            self.good = Some(now);
        }
    }

    /// How long a newcomer may wait. Where no place was given within the target for a whole `max_wait`, the queue
    /// stands: it only makes everybody late. Then a newcomer has the target alone, or as long as two places take to
    /// come free (`interval` each), so that a queue of slow work is not emptied; until for a whole `max_wait` nobody was
    /// [turned away](Self::turned_away).
    pub(crate) fn patience(
        &mut self,
        max_wait: Duration,
        interval: impl FnOnce() -> Duration,
        now: Instant,
    ) -> Duration {
        if self.good.is_some_and(|good| now.saturating_duration_since(good) > max_wait) {
            self.short_until = Some(now + max_wait);
        }
        if self.is_short(now) { (max_wait / TARGET_PART).max(interval() * 2).min(max_wait) } else { max_wait }
    }

    /// Somebody would have waited too long, or did.
    pub(crate) fn turned_away(&mut self, max_wait: Duration, now: Instant) {
        if self.is_short(now) {
            self.short_until = Some(now + max_wait);
        }
    }

    fn is_short(&self, now: Instant) -> bool {
        self.short_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_what_is_measured() {
        let mut hold = Hold::default();
        assert_eq!((hold.known(), hold.or(Hold(7)), hold.or(Hold(0))), (None, 7, NOMINAL_US));
        hold.measure(8000);
        assert_eq!(hold.known(), Some(8000));
        hold.measure(16_000);
        assert_eq!(hold.known(), Some(9000));
        (0..100).for_each(|_| hold.measure(0));
        assert!(hold.known().unwrap() < 10, "{hold:?}");
        let before = hold.known().unwrap();
        hold.measure(u32::MAX);
        assert!(hold.known().unwrap() <= before * 11 / 8 + 1, "one that hung says little: {hold:?}");
        (0..60).for_each(|_| hold.measure(1_000_000));
        assert!(hold.known().unwrap() > 900_000, "many say it: {hold:?}");
    }

    #[test]
    fn a_wait_is_the_places_before_it_at_the_rate_at_which_they_come_free() {
        assert_eq!(Hold(10_000).wait(1000, 4), Duration::from_millis(2500));
        assert_eq!(Hold(10_000).wait(1, 0), Duration::from_millis(10));
        assert_eq!(Hold::default().wait(1000, 4), Duration::ZERO, "nothing is known");
    }

    #[test]
    fn a_queue_that_stands_has_less_patience_until_a_place_is_given_in_time() {
        let (max_wait, now) = (Duration::from_millis(100), Instant::now());
        let interval = Duration::from_millis(1);
        let at = |ms| now + Duration::from_millis(ms);
        let mut ageing = Ageing::default();
        let patience = |ageing: &mut Ageing, ms| ageing.patience(max_wait, || interval, at(ms)).as_millis();
        assert_eq!(patience(&mut ageing, 0), 100);
        ageing.idle(at(0));
        ageing.granted(Duration::from_millis(6), max_wait, at(90));
        assert_eq!(patience(&mut ageing, 100), 100);
        assert_eq!(patience(&mut ageing, 101), 5, "for a whole max_wait nobody was in time");
        assert_eq!(ageing.patience(max_wait, || Duration::from_millis(30), at(101)).as_millis(), 60);
        assert_eq!(ageing.patience(max_wait, || max_wait, at(101)), max_wait);
        ageing.granted(Duration::from_millis(5), max_wait, at(102));
        ageing.turned_away(max_wait, at(150));
        ageing.idle(at(200));
        assert_eq!(patience(&mut ageing, 249), 5, "a tenth of a second ago somebody was turned away");
        assert_eq!(patience(&mut ageing, 250), 100);
    }
}
