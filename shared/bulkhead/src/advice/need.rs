//! The places that one class needs, by each way to reckon them, and its advice.

use std::time::Duration;

use cofferdam_model::Rate;

use super::sizes::{ClassAdvice, ClassUse, MIN_SAMPLES};
use crate::erlang::{loss, places_for};
use crate::sizing::size;

/// Headroom above the peak, in thousandths.
const BUFFER_THOUSANDTHS: u32 = 1300;
/// Arrivals that may find all places taken, as a share.
const MAX_LOSS: f64 = 0.01;
/// How long a class without a word of its own lets requests wait.
const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(100);

/// The places that a class needs.
pub(super) struct Need {
    by_littles_law: u32,
    by_erlang: u32,
    by_peak: u32,
    /// The places that the busiest second holds on average.
    offered: f64,
    /// Whether too few holds were measured to say anything.
    pub(super) too_few: bool,
}

impl Need {
    pub(super) fn of(class: &ClassUse, observed: Duration) -> Self {
        let by_peak = class.peak_used.saturating_add(1);
        let too_few = class.holds < MIN_SAMPLES;
        if class.demand == 0 {
            return Self { by_littles_law: 0, by_erlang: 0, by_peak, offered: 0.0, too_few };
        }
        let mean_rate = class.demand as f64 / observed.as_secs_f64().max(1.0);
        let rate = class.peak_per_second.max(mean_rate.ceil() as u64).max(1);
        let slow = class.p99_hold.max(class.slowest_hold);
        let by_littles_law = Rate::new(rate, 1_000_000)
            .and_then(|rate| size(rate, slow, BUFFER_THOUSANDTHS).ok())
            .map_or(u32::MAX, |places| u32::try_from(places).unwrap_or(u32::MAX));
        let offered = rate as f64 * class.mean_hold.as_secs_f64();
        let by_erlang = places_for(offered, MAX_LOSS).unwrap_or(u32::MAX);
        Self { by_littles_law, by_erlang, by_peak, offered, too_few }
    }

    pub(super) fn places(&self) -> u32 {
        self.by_littles_law.max(self.by_erlang).max(self.by_peak)
    }

    /// The places that the class has needed, or that are kept for it anyhow.
    pub(super) fn least(&self, class: &ClassUse) -> u32 {
        // A class that is kept as it is gets no place beyond its peak.
        class.floor.max(if self.too_few { class.peak_used } else { self.by_peak })
    }

    /// The places that should be kept for the class.
    pub(super) fn wanted(&self, class: &ClassUse) -> u32 {
        let least = self.least(class);
        if self.too_few { least } else { least.max(self.places()) }
    }

    pub(super) fn advice(&self, class: &ClassUse, floor: u32) -> ClassAdvice {
        let max_wait = if class.max_wait.is_zero() { DEFAULT_MAX_WAIT } else { class.max_wait };
        let ceiling = class.ceiling.max(floor);
        let queue = match class.refused_for_room > 0 && !self.too_few {
            true => class.queue.max(queue(floor, max_wait, class.mean_hold)),
            false => class.queue,
        };
        let is_same = (floor, ceiling, queue) == (class.floor, class.ceiling, class.queue);
        let refused_for_room = if is_same { class.refused_for_room } else { self.refused(class, floor) };
        let &Self { by_littles_law, by_erlang, by_peak, too_few, .. } = self;
        ClassAdvice {
            name: class.name.clone(),
            floor,
            ceiling,
            queue,
            max_wait,
            by_littles_law,
            by_erlang,
            by_peak,
            too_few,
            refused_for_room,
        }
    }

    /// The requests that so many places would have refused, if all seconds had been like the busiest; never more than were.
    fn refused(&self, class: &ClassUse, places: u32) -> u64 {
        let expected = (loss(places, self.offered) * class.demand as f64).ceil();
        (expected as u64).min(class.refused_for_room)
    }
}

/// Half of the places, and no more than get one within `max_wait`.
fn queue(places: u32, max_wait: Duration, mean_hold: Duration) -> u32 {
    let served = u128::from(places) * max_wait.as_nanos() / mean_hold.as_nanos().max(1);
    u32::try_from(served).unwrap_or(u32::MAX).min(places / 2)
}
