//! What compartments should be, by what was measured of them. It reads no metrics and changes nothing: numbers in, numbers
//! and reasons out.

use std::time::Duration;

use cofferdam_model::{ClassName, Rate};

use crate::erlang::places_for;
use crate::sizing::size;

/// Headroom above the peak, in thousandths.
const BUFFER_THOUSANDTHS: u32 = 1300;
/// Arrivals that may find all places taken, as a share.
const MAX_LOSS: f64 = 0.01;
/// A high percentile of fewer holds than this says little.
const FEW_SAMPLES: u64 = 1000;
/// Fewer places than this are too coarse to stand alone.
const SMALL: u32 = 4;
/// A floor of this many times what is needed lies idle.
const IDLE_FACTOR: u32 = 4;
/// Whoever holds a place for so long keeps nobody at a screen waiting.
const CAN_WAIT: Duration = Duration::from_secs(5);
/// How long a class without a word of its own lets requests wait.
const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(100);

/// What was measured of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellUse {
    /// The cell's places.
    pub max_in_flight: u32,
    /// For how long its classes were measured.
    pub observed: Duration,
    /// Each class.
    pub classes: Vec<ClassUse>,
    /// The names of those dependencies that have a cap of their own.
    pub dependencies: Vec<String>,
}

/// What was measured of a class, and how it is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassUse {
    /// The class.
    pub name: ClassName,
    /// Its priority, as it is set.
    pub priority: u8,
    /// Its floor, as it is set.
    pub floor: u32,
    /// Its ceiling, as it is set.
    pub ceiling: u32,
    /// Its queue, as it is set.
    pub queue: u32,
    /// How long a request may wait in it, as it is set.
    pub max_wait: Duration,
    /// Requests that came, those that were refused among them: refusals hide demand.
    pub arrivals: u64,
    /// The most that came within one second.
    pub peak_per_second: u64,
    /// Holds that were measured.
    pub holds: u64,
    /// How long a place was held, on average.
    pub mean_hold: Duration,
    /// How long at most, but for one hold in a hundred.
    pub p99_hold: Duration,
    /// The most places that were ever held at once.
    pub peak_used: u32,
    /// Requests that were refused for want of a place.
    pub refused: u64,
}

/// How a cell should be divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Each class, in the order of what was measured.
    pub classes: Vec<ClassAdvice>,
    /// What no size mends.
    pub warnings: Vec<Warning>,
}

/// What one class should be, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassAdvice {
    /// The class.
    pub name: ClassName,
    /// Places to keep for it.
    pub floor: u32,
    /// The most that it should hold.
    pub ceiling: u32,
    /// How many should wait at most: half of its places, and no more than get one within `max_wait`.
    pub queue: u32,
    /// How long, at most.
    pub max_wait: Duration,
    /// Places by Little's law: the peak rate by the high percentile of the hold time, and headroom.
    pub by_littles_law: u32,
    /// Places by Erlang's formula: the peak rate by the mean hold time, with a loss of one in a hundred.
    pub by_erlang: u32,
    /// One more than were ever held at once.
    pub by_peak: u32,
}

/// Something that the sizes alone do not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Too few holds were measured to know a high percentile.
    FewSamples {
        /// The class.
        class: ClassName,
        /// Holds that were measured.
        holds: u64,
    },
    /// So few places refuse in coarse steps: better a part of another class.
    TooSmall {
        /// The class.
        class: ClassName,
        /// The places that it needs.
        places: u32,
    },
    /// No dependency has a cap, and only this class has traffic: there is nothing to keep apart.
    OneClass {
        /// The class.
        class: ClassName,
    },
    /// Whatever has traffic, only this dependency has a cap: there is nothing to keep apart.
    OneDependency {
        /// Its name.
        dependency: String,
    },
    /// Most of the places that are kept for the class were never held.
    Idle {
        /// The class.
        class: ClassName,
        /// The places that are kept.
        floor: u32,
        /// The most that were ever held.
        peak_used: u32,
    },
    /// Nobody waits at a screen for so long: such work belongs in a queue of jobs.
    CanWait {
        /// The class.
        class: ClassName,
        /// The high percentile of its holds.
        p99_hold: Duration,
    },
    /// The places needed are more than the cell has; the advised floors are each class's part of it.
    DoesNotFit {
        /// The places needed.
        needed: u64,
        /// The cell's.
        cell: u32,
    },
}

/// How the cell should be divided, by what was measured of it.
pub fn advise(cell: &CellUse) -> Advice {
    let needs: Vec<_> = cell.classes.iter().map(|class| Need::of(class, cell.observed)).collect();
    let needed: u64 = needs.iter().map(|need| u64::from(need.places())).sum();
    let fits = needed <= u64::from(cell.max_in_flight);
    let part = |places: u32| {
        if fits {
            return places;
        }
        // At most `places`, since the cell has fewer than are needed.
        (u64::from(places) * u64::from(cell.max_in_flight) / needed) as u32
    };
    let floors: u32 = needs.iter().map(|need| part(need.places())).sum();
    let spare = cell.max_in_flight - floors;
    let each = cell.classes.iter().zip(&needs);
    let classes = each.map(|(class, need)| {
        let floor = part(need.places());
        let ceiling = need.places().max(floor + spare).clamp(1, cell.max_in_flight.max(1));
        need.advice(class, floor, ceiling)
    });
    let mut warnings = Vec::new();
    if !fits {
        warnings.push(Warning::DoesNotFit { needed, cell: cell.max_in_flight });
    }
    warnings.extend(one_alone(cell));
    for (class, need) in cell.classes.iter().zip(&needs) {
        warn(class, need, &mut warnings);
    }
    Advice { classes: classes.collect(), warnings }
}

/// The places that a class needs, by each way to reckon them.
struct Need {
    by_littles_law: u32,
    by_erlang: u32,
    by_peak: u32,
}

impl Need {
    fn of(class: &ClassUse, observed: Duration) -> Self {
        let by_peak = class.peak_used.saturating_add(1);
        if class.arrivals == 0 {
            return Self { by_littles_law: 0, by_erlang: 0, by_peak };
        }
        let mean_rate = class.arrivals as f64 / observed.as_secs_f64().max(1.0);
        let rate = class.peak_per_second.max(mean_rate.ceil() as u64).max(1);
        let by_littles_law = Rate::new(rate, 1_000_000)
            .and_then(|rate| size(rate, class.p99_hold, BUFFER_THOUSANDTHS).ok())
            .map_or(u32::MAX, |places| u32::try_from(places).unwrap_or(u32::MAX));
        let offered = rate as f64 * class.mean_hold.as_secs_f64();
        let by_erlang = places_for(offered, MAX_LOSS).unwrap_or(u32::MAX);
        Self { by_littles_law, by_erlang, by_peak }
    }

    fn places(&self) -> u32 {
        self.by_littles_law.max(self.by_erlang).max(self.by_peak)
    }

    fn advice(&self, class: &ClassUse, floor: u32, ceiling: u32) -> ClassAdvice {
        let max_wait = if class.max_wait.is_zero() { DEFAULT_MAX_WAIT } else { class.max_wait };
        let served = u128::from(floor) * max_wait.as_nanos() / class.mean_hold.as_nanos().max(1);
        let queue = u32::try_from(served).unwrap_or(u32::MAX).min(floor / 2);
        let &Self { by_littles_law, by_erlang, by_peak } = self;
        ClassAdvice {
            name: class.name.clone(),
            floor,
            ceiling,
            queue,
            max_wait,
            by_littles_law,
            by_erlang,
            by_peak,
        }
    }
}

/// Whether there is nothing to keep apart: by the dependencies where any is told by its cap, and else by the classes.
fn one_alone(cell: &CellUse) -> Option<Warning> {
    let mut busy = cell.classes.iter().filter(|class| class.arrivals > 0);
    let first = busy.next()?;
    match (cell.dependencies.as_slice(), busy.next()) {
        ([], None) => Some(Warning::OneClass { class: first.name.clone() }),
        ([only], _) => Some(Warning::OneDependency { dependency: only.clone() }),
        _ => None,
    }
}

fn warn(class: &ClassUse, need: &Need, warnings: &mut Vec<Warning>) {
    let (name, places) = (|| class.name.clone(), need.places());
    if class.arrivals > 0 && class.holds < FEW_SAMPLES {
        warnings.push(Warning::FewSamples { class: name(), holds: class.holds });
    }
    if class.arrivals > 0 && places < SMALL {
        warnings.push(Warning::TooSmall { class: name(), places });
    }
    if class.floor > places.saturating_mul(IDLE_FACTOR) {
        let (floor, peak_used) = (class.floor, class.peak_used);
        warnings.push(Warning::Idle { class: name(), floor, peak_used });
    }
    if class.p99_hold >= CAN_WAIT {
        warnings.push(Warning::CanWait { class: name(), p99_hold: class.p99_hold });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, peak_per_second: u64, mean_ms: u64, p99_ms: u64, peak_used: u32) -> ClassUse {
        ClassUse {
            name: ClassName::parse(name).unwrap(),
            priority: 1,
            floor: 0,
            ceiling: 100,
            queue: 0,
            max_wait: Duration::ZERO,
            arrivals: peak_per_second * 1000,
            peak_per_second,
            holds: peak_per_second * 1000,
            mean_hold: Duration::from_millis(mean_ms),
            p99_hold: Duration::from_millis(p99_ms),
            peak_used,
            refused: 0,
        }
    }

    fn cell(max_in_flight: u32, classes: Vec<ClassUse>) -> CellUse {
        let dependencies = Vec::new();
        CellUse { max_in_flight, observed: Duration::from_secs(3600), classes, dependencies }
    }

    #[test]
    fn the_largest_of_littles_law_erlangs_formula_and_the_peak_is_the_floor() {
        let advice = advise(&cell(
            200,
            vec![
                class("little", 100, 100, 500, 20),
                class("erlang", 100, 200, 210, 20),
                class("peak", 10, 20, 30, 40),
            ],
        ));
        let sizes = |n: usize| {
            let class = &advice.classes[n];
            (class.by_littles_law, class.by_erlang, class.by_peak, class.floor)
        };
        assert_eq!(sizes(0), (65, 18, 21, 65));
        assert_eq!(sizes(1), (28, 30, 21, 30));
        assert_eq!(sizes(2), (1, 3, 41, 41));
        // What no floor needs may be lent to each.
        assert_eq!(advice.classes.iter().map(|class| class.ceiling).collect::<Vec<_>>(), [129, 94, 105]);
        assert_eq!(advice.warnings, []);
    }

    #[test]
    fn a_queue_has_half_of_the_places_or_what_gets_one_in_time() {
        // P8
        let advice =
            advise(&cell(300, vec![class("quick", 1000, 5, 10, 12), class("slow", 20, 2000, 3000, 50)]));
        assert_eq!((advice.classes[0].floor, advice.classes[0].queue), (13, 6));
        // Within 100 ms, 78 places of two seconds each serve three.
        assert_eq!((advice.classes[1].floor, advice.classes[1].queue), (78, 3));
    }

    #[test]
    fn a_cell_that_is_too_small_is_shared_in_proportion_and_it_is_said() {
        let advice = advise(&cell(50, vec![class("a", 100, 100, 500, 20), class("b", 100, 100, 250, 20)]));
        let floors: Vec<_> = advice.classes.iter().map(|class| (class.floor, class.ceiling)).collect();
        assert_eq!(floors, [(33, 50), (16, 33)]);
        assert_eq!(advice.warnings, [Warning::DoesNotFit { needed: 98, cell: 50 }]);
    }

    #[test]
    fn what_does_not_pay_is_said() {
        // P17, P20
        let mut idle = ClassUse { arrivals: 0, holds: 0, floor: 20, ..class("idle", 0, 0, 0, 0) };
        idle.ceiling = 30;
        let rare = ClassUse { arrivals: 50, holds: 50, ..class("rare", 1, 10, 20, 1) };
        let slow = class("slow", 2, 4000, 9000, 9);
        let name = |name: &str| ClassName::parse(name).unwrap();
        let advice = advise(&cell(100, vec![idle, rare.clone(), slow]));
        assert_eq!(
            advice.warnings,
            [
                Warning::Idle { class: name("idle"), floor: 20, peak_used: 0 },
                Warning::FewSamples { class: name("rare"), holds: 50 },
                Warning::TooSmall { class: name("rare"), places: 2 },
                Warning::CanWait { class: name("slow"), p99_hold: Duration::from_secs(9) },
            ]
        );
        assert_eq!(
            (advice.classes[0].floor, advice.classes[0].queue),
            (1, 0),
            "whoever comes first has a place"
        );
        let alone = advise(&cell(100, vec![ClassUse { holds: 5000, peak_used: 9, ..rare }]));
        assert_eq!(alone.warnings, [Warning::OneClass { class: name("rare") }]);
    }

    #[test]
    fn where_dependencies_have_caps_they_say_whether_there_is_anything_to_keep_apart() {
        // P20
        let busy = |name| class(name, 100, 100, 500, 20);
        let idle = ClassUse { arrivals: 0, holds: 0, ..busy("idle") };
        let warnings = |classes: Vec<ClassUse>, dependencies: &[&str]| {
            let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
            advise(&CellUse { dependencies, ..cell(300, classes) }).warnings
        };
        let one = [Warning::OneDependency { dependency: "db".to_owned() }];
        assert_eq!(warnings(vec![busy("a")], &["db", "mail"]), [], "one class needs two");
        assert_eq!(warnings(vec![busy("a"), busy("b")], &["db"]), one, "two classes need the same");
        assert_eq!(warnings(vec![busy("a"), busy("b")], &[]), []);
        assert_eq!(warnings(vec![idle], &["db"]), [], "nothing has traffic");
    }

    #[test]
    fn what_is_out_of_range_overflows_nothing() {
        let huge = ClassUse {
            p99_hold: Duration::MAX,
            mean_hold: Duration::MAX,
            ..class("huge", 1, 0, 0, u32::MAX)
        };
        let advice = advise(&cell(10, vec![huge.clone(), huge]));
        assert_eq!(advice.classes.iter().map(|class| class.floor).collect::<Vec<_>>(), [5, 5]);
    }
}
