//! When a cell, or one class in it, is avoided, and when it is taken again. It knows numbers and moments, and no cell.
//!
//! From [`AVOID`] on it is avoided, for [`REST`] at least, and until no more than [`RETURN`] is reported. In between
//! nothing changes, so that a cell near a bound does not flap. The rest is stretched at random, so that routers do
//! not come back together.

use std::time::{Duration, Instant};

use cofferdam_model::Saturation;

/// From here on the other cell is taken, in thousandths.
pub(crate) const AVOID: u16 = 900;

/// Down here it is taken again, in thousandths.
const RETURN: u16 = 700;

/// How long it is left alone at least.
const REST: Duration = Duration::from_secs(3);

/// The most that is added to the rest at random.
const JITTER: Duration = Duration::from_millis(1500);

/// What one gauge of a cell says, and what follows from it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watched {
    saturation: Saturation,
    avoided: Option<Avoided>,
}

#[derive(Debug, Clone, Copy)]
struct Avoided {
    since: Instant,
    /// Not before this it is taken again.
    until: Instant,
}

impl Watched {
    /// Takes note of what is reported.
    pub(super) fn note(&mut self, saturation: Saturation, now: Instant) {
        self.saturation = saturation;
        match self.avoided {
            None if saturation.thousandths() >= AVOID => {
                let until = now + REST + rand::random_range(Duration::ZERO..=JITTER);
                self.avoided = Some(Avoided { since: now, until });
            }
            Some(avoided) if saturation.thousandths() <= RETURN && now >= avoided.until => {
                self.avoided = None
            }
            _ => {}
        }
    }

    /// What was reported last.
    pub(super) fn saturation(&self) -> Saturation {
        self.saturation
    }

    /// Since when it is avoided.
    pub(super) fn avoided_since(&self) -> Option<Instant> {
        self.avoided.map(|avoided| avoided.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn at(thousandths: u64) -> Saturation {
        Saturation::ratio(thousandths, 1000)
    }

    #[test]
    fn nine_tenths_avoids_and_seven_tenths_returns_after_three_seconds_and_some() {
        let (mut watched, start) = (Watched::default(), Instant::now());
        let mut is_avoided = |thousandths, ms| {
            watched.note(at(thousandths), after(start, ms));
            watched.avoided_since().is_some()
        };
        assert!(!is_avoided(899, 0));
        assert!(is_avoided(900, 0));
        assert!(is_avoided(100, 2999), "it rests for three seconds");
        assert!(is_avoided(701, 4500), "it is not low enough");
        assert!(!is_avoided(700, 4500));
        assert!(!is_avoided(899, 4500), "between the bounds nothing changes");
    }

    #[test]
    fn routers_do_not_come_back_together() {
        let start = Instant::now();
        let returned = (0..200).filter(|_| {
            let mut watched = Watched::default();
            watched.note(at(1000), start);
            watched.note(at(0), after(start, 3750));
            watched.avoided_since().is_none()
        });
        assert!((60..140).contains(&returned.count()));
    }
}
