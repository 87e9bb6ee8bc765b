//! What a cell last said of its load, and which of its compartments are avoided because of that.
//!
//! Reports come with every answer and are pulled besides. One that is older than [`EXPIRES`] says nothing any more:
//! the cell is then neither avoided nor preferred.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_model::{ClassName, Report, ReportError, Saturation};
use http::HeaderValue;
use parking_lot::Mutex;

use super::avoidance::Watched;

/// How long a report counts.
const EXPIRES: Duration = Duration::from_secs(2);

/// What one cell says of its load.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Whether anything is avoided, as of the last report: whoever chooses reads no more than this as long as nothing is.
    avoids: AtomicBool,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// As it came with an answer; the next answer mostly says the same.
    raw: Option<HeaderValue>,
    at: Option<Instant>,
    cell: Watched,
    classes: Vec<(ClassName, Watched)>,
}

/// How full a cell is for requests of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// The whole cell.
    pub(crate) cell: Saturation,
    /// The class; as the cell where the report does not name it.
    pub(crate) class: Saturation,
    /// Whether the cell, or the class in it, is avoided.
    pub(crate) avoided: bool,
}

/// A report with its age.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reported {
    /// How full the whole cell is.
    pub(crate) cell: Gauge,
    /// Each class's, as reported.
    pub(crate) classes: Vec<(ClassName, Gauge)>,
    /// How long ago it came.
    pub(crate) age: Duration,
}

/// One number of a report, and for how long what it measures has been avoided; nothing where it is not, or where the
/// report counts no longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gauge {
    pub(crate) saturation: Saturation,
    pub(crate) avoided_for: Option<Duration>,
}

impl Reported {
    /// How many compartments are avoided, the whole cell among them.
    pub(crate) fn n_avoided(&self) -> usize {
        let gauges = self.classes.iter().map(|(_, gauge)| gauge).chain([&self.cell]);
        gauges.filter(|gauge| gauge.avoided_for.is_some()).count()
    }
}

impl Load {
    /// Takes note of a report as it came with an answer. One that cannot be read says nothing, nor does any before it.
    /// Answers whether anything is avoided now, where that has changed.
    pub(super) fn keep(&self, raw: HeaderValue, now: Instant) -> Option<bool> {
        let mut last = self.last.lock();
        let is_same = last.raw.as_ref() == Some(&raw) && last.is_fresh(now);
        // Nothing follows from the same numbers again, unless something waits for its return.
        if is_same && !self.avoids.load(Ordering::Relaxed) {
            last.at = Some(now);
            return None;
        }
        last.begin(now);
        let read = raw.to_str().map_err(|_| ReportError::Form).and_then(|text| last.read(text, now));
        match read {
            Ok(()) => last.raw = Some(raw),
            Err(_) => *last = Last::default(),
        }
        self.settle(&last)
    }

    /// Takes note of a report that was pulled. Answers as [`Self::keep`] does.
    pub(super) fn take(&self, report: &Report, now: Instant) -> Option<bool> {
        let mut last = self.last.lock();
        last.begin(now);
        last.raw = None;
        last.cell.note(report.cell, now);
        for (place, class) in report.classes.iter().enumerate() {
            last.note_class(place, class.class.as_str(), class.saturation, now);
        }
        last.classes.truncate(report.classes.len());
        self.settle(&last)
    }

    fn settle(&self, last: &Last) -> Option<bool> {
        let avoids = last.avoids();
        (self.avoids.swap(avoids, Ordering::Relaxed) != avoids).then_some(avoids)
    }

    /// Whether requests of `class` had better go elsewhere.
    pub(super) fn is_avoided(&self, class: &str, now: Instant) -> bool {
        self.avoids.load(Ordering::Relaxed) && self.room(class, now).is_some_and(|room| room.avoided)
    }

    /// How full the cell is for `class`, by a report that still counts.
    pub(super) fn room(&self, class: &str, now: Instant) -> Option<Room> {
        let last = self.last.lock();
        if !last.is_fresh(now) {
            return None;
        }
        let of_class = last.classes.iter().find(|(name, _)| name.as_str() == class);
        let of_class = of_class.map_or(&last.cell, |(_, watched)| watched);
        let avoided = last.cell.avoided_since().or(of_class.avoided_since()).is_some();
        Some(Room { cell: last.cell.saturation(), class: of_class.saturation(), avoided })
    }

    /// What was said last, however long ago.
    pub(super) fn reported(&self, now: Instant) -> Option<Reported> {
        let last = self.last.lock();
        let age = now.saturating_duration_since(last.at?);
        let since = |watched: &Watched| watched.avoided_since().filter(|_| age < EXPIRES);
        let gauge = |watched: &Watched| Gauge {
            saturation: watched.saturation(),
            avoided_for: since(watched).map(|since| now.saturating_duration_since(since)),
        };
        let classes = last.classes.iter().map(|(name, watched)| (name.clone(), gauge(watched)));
        Some(Reported { cell: gauge(&last.cell), classes: classes.collect(), age })
    }
}

impl Last {
    fn is_fresh(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now.saturating_duration_since(at) < EXPIRES)
    }

    /// A report comes. What was avoided by one that counts no longer is forgotten.
    fn begin(&mut self, now: Instant) {
        if !self.is_fresh(now) {
            *self = Self::default();
        }
        self.at = Some(now);
    }

    fn read(&mut self, text: &str, now: Instant) -> Result<(), ReportError> {
        let mut place = 0;
        for entry in Report::entries(text)? {
            let entry = entry?;
            match entry.class {
                None => {
                    self.cell.note(entry.saturation, now);
                }
                Some(_) if place == Report::MAX_CLASSES => return Err(ReportError::TooMany),
                Some(class) if ClassName::parse(class).is_err() => {
                    return Err(ReportError::Entry(class.to_owned()));
                }
                Some(class) => {
                    self.note_class(place, class, entry.saturation, now);
                    place += 1;
                }
            }
        }
        // Who is not named any more is gone.
        self.classes.truncate(place);
        Ok(())
    }

    /// The class at this place of the report. They come in the same order each time; where one does not, it moves.
    fn note_class(&mut self, place: usize, class: &str, saturation: Saturation, now: Instant) {
        let is_it = |(name, _): &(ClassName, Watched)| name.as_str() == class;
        let found = self.classes.iter().skip(place).position(is_it).map(|found| place + found);
        let found = found.or_else(|| {
            self.classes.push((ClassName::parse(class).ok()?, Watched::default()));
            Some(self.classes.len() - 1)
        });
        if let Some(found) = found {
            self.classes.swap(place, found);
            self.classes[place].1.note(saturation, now);
        }
    }

    fn avoids(&self) -> bool {
        self.cell.avoided_since().is_some()
            || self.classes.iter().any(|(_, class)| class.avoided_since().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("TEXT application_utilization={text}")).unwrap()
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn the_last_readable_report_is_shown_with_its_age() {
        let (load, now) = (Load::default(), Instant::now());
        assert_eq!(load.reported(now), None);
        load.keep(said("0.5"), now);
        let shown = load.reported(after(now, 300)).unwrap();
        assert_eq!(shown.cell.saturation.thousandths(), 500);
        assert_eq!((shown.age, shown.n_avoided()), (Duration::from_millis(300), 0));
        load.keep(HeaderValue::from_static("nonsense"), now);
        assert_eq!(load.reported(now), None);
    }

    #[test]
    fn a_full_class_is_avoided_by_its_own_requests_and_a_full_cell_by_all() {
        let (load, now) = (Load::default(), Instant::now());
        load.keep(said("0.5, named_metrics.reports=0.95, named_metrics.search=0.1"), now);
        assert!(load.is_avoided("reports", now) && !load.is_avoided("search", now));
        assert!(!load.is_avoided("unnamed", now));
        load.keep(said("0.9, named_metrics.reports=0.95, named_metrics.search=0.1"), now);
        assert!(
            load.is_avoided("reports", now) && load.is_avoided("search", now) && load.is_avoided("x", now)
        );
        assert_eq!(load.reported(now).unwrap().n_avoided(), 2);
    }

    #[test]
    fn the_same_words_again_end_an_avoidance_once_its_rest_is_over() {
        let (load, now) = (Load::default(), Instant::now());
        load.keep(said("0.95"), now);
        for ms in (0..=4500).step_by(500) {
            assert!(load.is_avoided("x", after(now, ms)), "{ms}");
            if ms == 4500 {
                break;
            }
            load.keep(said("0.8"), after(now, ms + 499));
        }
        load.keep(said("0.6"), after(now, 4500));
        assert!(!load.is_avoided("x", after(now, 4500)));
    }

    #[test]
    fn a_report_of_two_seconds_ago_says_nothing_and_avoids_nothing() {
        let (load, now) = (Load::default(), Instant::now());
        load.keep(said("1"), now);
        assert!(load.is_avoided("x", after(now, 1999)));
        assert!(!load.is_avoided("x", after(now, 2000)));
        assert_eq!(
            (load.room("x", after(now, 2000)), load.reported(after(now, 2000)).unwrap().n_avoided()),
            (None, 0)
        );
        load.keep(said("0.8"), after(now, 2500));
        assert!(!load.is_avoided("x", after(now, 2500)), "what was avoided long ago is forgotten");
    }

    #[test]
    fn a_pulled_report_counts_like_one_that_came_with_an_answer() {
        let (load, now) = (Load::default(), Instant::now());
        let report = Report::parse("TEXT application_utilization=0.2, named_metrics.reports=1").unwrap();
        load.take(&report, now);
        assert!(load.is_avoided("reports", now) && !load.is_avoided("search", now));
        load.take(&Report::default(), after(now, 4600));
        assert!(!load.is_avoided("reports", after(now, 4600)));
    }

    #[test]
    fn who_is_not_named_any_more_is_forgotten_and_an_order_may_change() {
        let (load, now) = (Load::default(), Instant::now());
        load.keep(said("0.1, named_metrics.a=1, named_metrics.b=0.2, named_metrics.c=0.3"), now);
        load.keep(said("0.1, named_metrics.c=0.3, named_metrics.a=0.8"), now);
        let classes = load.reported(now).unwrap().classes;
        let names: Vec<_> =
            classes.iter().map(|(name, gauge)| (name.as_str(), gauge.avoided_for.is_some())).collect();
        assert_eq!(names, [("c", false), ("a", true)]);
        load.keep(said("0.1, named_metrics.a=0.8, named_metrics.a=0.8"), now);
        assert_eq!(load.reported(now).unwrap().classes.len(), 2, "a name that comes twice");
        let many: String = (0..65).map(|n| format!(", named_metrics.c{n}=0.1")).collect();
        load.keep(said(&format!("0.1{many}")), now);
        assert_eq!(load.reported(now), None, "more than a report may have");
    }
}
