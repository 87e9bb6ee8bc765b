//! How many requests a second, and how many of them fail: what the load report says beside how full the cell is. Looked at
//! once a second, beside the requests' way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cofferdam_bulkhead::{Compartments, Snapshot};
use cofferdam_model::ClassName;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::metrics::Metrics;

/// How often the counters are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The rates of one agent. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Of the whole cell: two `f32`s, so that an answer costs one look.
    cell: AtomicU64,
    /// By name.
    classes: Mutex<Vec<(ClassName, ClassRates)>>,
}

/// The whole cell's, a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CellRates {
    /// Requests that ended.
    pub(crate) requests: f32,
    /// Those of them that failed, or were refused for want of room.
    pub(crate) errors: f32,
}

/// One class's, a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ClassRates {
    /// Places given.
    pub(crate) grants: f64,
    /// Refusals, for any reason.
    pub(crate) refusals: f64,
}

/// What had been counted at one moment.
struct Counted {
    at: Instant,
    requests: u64,
    errors: u64,
    /// By name: places given, and refusals.
    classes: Vec<(ClassName, u64, u64)>,
}

impl Rates {
    /// The cell's.
    pub(crate) fn cell(&self) -> CellRates {
        let word = self.0.cell.load(Ordering::Relaxed);
        CellRates { requests: f32::from_bits((word >> 32) as u32), errors: f32::from_bits(word as u32) }
    }

    /// A class's; nothing of one that was not there a second ago.
    pub(crate) fn class(&self, name: &ClassName) -> ClassRates {
        let classes = self.0.classes.lock();
        classes.iter().find(|(of, _)| of == name).map(|(_, rates)| *rates).unwrap_or_default()
    }

    /// Looks at the counters every second, for ever.
    pub(crate) async fn watch(self, metrics: Arc<Metrics>, compartments: Compartments) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = Counted::now(&metrics, &compartments.snapshot());
        loop {
            ticks.tick().await;
            let now = Counted::now(&metrics, &compartments.snapshot());
            if self.learn(&before, &now) {
                before = now;
            }
        }
    }

    /// Takes what came between two moments; `false` where they are too close to tell.
    fn learn(&self, before: &Counted, now: &Counted) -> bool {
        let passed = (now.at - before.at).as_secs_f64();
        if passed < EVERY.as_secs_f64() / 2.0 {
            return false;
        }
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / passed;
        let (requests, errors) = (rate(before.requests, now.requests), rate(before.errors, now.errors));
        let word = u64::from((requests as f32).to_bits()) << 32 | u64::from((errors as f32).to_bits());
        self.0.cell.store(word, Ordering::Relaxed);
        let class = |(name, grants, refusals): &(ClassName, u64, u64)| {
            let (_, before_grants, before_refusals) = before.classes.iter().find(|(of, ..)| of == name)?;
            let (grants, refusals) = (rate(*before_grants, *grants), rate(*before_refusals, *refusals));
            Some((name.clone(), ClassRates { grants, refusals }))
        };
        *self.0.classes.lock() = now.classes.iter().filter_map(class).collect();
        true
    }
}

impl Counted {
    fn now(metrics: &Metrics, places: &Snapshot) -> Self {
        let (requests, errors) = metrics.ended();
        let classes = places.classes.iter();
        let classes = classes.map(|class| (class.class.clone(), class.granted, class.refused.iter().sum()));
        Self { at: Instant::now(), requests, errors, classes: classes.collect() }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::Outcome;

    fn counted(at: Instant, requests: u64, errors: u64, refusals: u64) -> Counted {
        let class = ClassName::parse("search").unwrap();
        Counted { at, requests, errors, classes: vec![(class, requests, refusals)] }
    }

    #[test]
    fn a_drain_is_no_failure_and_want_of_room_is_one() {
        // P31
        let metrics = Metrics::register(&mut Registry::default());
        let class = metrics.of(&ClassName::parse("search").unwrap());
        let ended = |outcome| {
            class.begin(Instant::now()).end(outcome);
            metrics.ended()
        };
        assert_eq!(ended(Outcome::Draining), (1, 0));
        assert_eq!(ended(Outcome::Refused), (2, 1));
    }

    #[test]
    fn a_rate_is_what_came_over_how_long_it_took_and_falls_again() {
        let (rates, start, name) = (Rates::default(), Instant::now(), ClassName::parse("search").unwrap());
        let after = |ms| start + Duration::from_millis(ms);
        let first = counted(start, 1_000, 7, 3);
        assert!(!rates.learn(&first, &counted(after(400), 1_400, 7, 3)), "too soon to tell");
        let second = counted(after(2_000), 1_500, 8, 103);
        assert!(rates.learn(&first, &second));
        assert_eq!(rates.cell(), CellRates { requests: 250.0, errors: 0.5 });
        assert_eq!(rates.class(&name), ClassRates { grants: 250.0, refusals: 50.0 });
        assert!(rates.learn(&second, &counted(after(3_000), 1_500, 8, 103)));
        assert_eq!((rates.cell(), rates.class(&name)), (CellRates::default(), ClassRates::default()));
    }
}
