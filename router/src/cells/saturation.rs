//! What a cell last said of its load, and when. It is kept as it came and read when somebody looks.

use std::time::{Duration, Instant};

use cofferdam_model::Report;
use http::HeaderValue;
use parking_lot::Mutex;

/// The last report of one cell.
#[derive(Debug, Default)]
pub(crate) struct LastReport(Mutex<Option<(HeaderValue, Instant)>>);

/// A report with its age.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reported {
    /// What the cell said.
    pub(crate) report: Report,
    /// How long ago.
    pub(crate) age: Duration,
}

impl LastReport {
    /// Keeps a report as it came with an answer.
    pub(crate) fn keep(&self, raw: HeaderValue, now: Instant) {
        *self.0.lock() = Some((raw, now));
    }

    /// The last report that can be read.
    pub(crate) fn read(&self, now: Instant) -> Option<Reported> {
        let (raw, at) = self.0.lock().clone()?;
        let report = Report::parse(raw.to_str().ok()?).ok()?;
        Some(Reported { report, age: now.saturating_duration_since(at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_readable_report_is_shown_with_its_age() {
        let (last, now) = (LastReport::default(), Instant::now());
        assert_eq!(last.read(now), None);
        last.keep(HeaderValue::from_static("TEXT application_utilization=0.5"), now);
        let shown = last.read(now + Duration::from_millis(300)).unwrap();
        assert_eq!(shown.report.cell.thousandths(), 500);
        assert_eq!(shown.age, Duration::from_millis(300));
        last.keep(HeaderValue::from_static("nonsense"), now);
        assert_eq!(last.read(now), None);
    }
}
