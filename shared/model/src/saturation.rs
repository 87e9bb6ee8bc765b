//! How full a cell is, and the line that says so on every answer: ORCA's load report in its text form.
//!
//! Format: `TEXT application_utilization=0.25, named_metrics.checkout=0.5` (Envoy's and gRPC's ORCA).

use std::fmt;

use crate::ClassName;

/// A ratio in 0..=1, kept in thousandths: 1 means that the next request would wait or be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Saturation(u16);

/// One class's saturation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSaturation {
    /// The class.
    pub class: ClassName,
    /// How full it is.
    pub saturation: Saturation,
}

/// What an answer says about its cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The whole cell's saturation.
    pub cell: Saturation,
    /// Each class's, in the order sent; at most [`Report::MAX_CLASSES`].
    pub classes: Vec<ClassSaturation>,
}

/// Why text is not a load report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It does not start with `TEXT `.
    #[error("load report is not in the text form")]
    Form,
    /// An entry is not `name=number` with a number in 0..=1.
    #[error("load report has the entry {0:?}")]
    Entry(String),
    /// More entries than a report may have.
    #[error("load report has more than 64 classes")]
    TooMany,
}

impl Saturation {
    /// No room left.
    pub const FULL: Self = Self(1000);

    /// `part` of `whole`, capped at 1. A whole of 0 is full.
    pub fn ratio(part: u64, whole: u64) -> Self {
        match (part * 1000).checked_div(whole) {
            Some(thousandths) => Self(thousandths.min(1000) as u16),
            None => Self::FULL,
        }
    }

    /// The ratio in thousandths, 0 to 1000.
    pub fn thousandths(self) -> u16 {
        self.0
    }

    /// The ratio as a float, for metrics.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// A ratio out of 0..=1, rounded to thousandths; nothing where it is outside.
    pub fn from_f64(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then(|| Self((value * 1000.0).round() as u16))
    }

    /// The ratio as text, such as `0.250`. Every answer has some of these, and formatting by `fmt` would cost ten times as much.
    pub fn text(self) -> [u8; 5] {
        let digit = |unit: u16| b'0' + (self.0 / unit % 10) as u8;
        [digit(1000), b'.', digit(100), digit(10), digit(1)]
    }

    fn parse(text: &str) -> Option<Self> {
        Self::from_f64(text.parse().ok()?)
    }
}

/// One of our entries in a load report, as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The class by its name; nothing for the whole cell.
    pub class: Option<&'a str>,
    /// How full it is.
    pub saturation: Saturation,
}

impl Report {
    /// The most classes that a report may have.
    pub const MAX_CLASSES: usize = 64;

    /// Our entries in the value of an `endpoint-load-metrics` header, one after the other and without a copy; those of others
    /// are passed over.
    ///
    /// # Errors
    ///
    /// The whole has another form, or an entry of ours no number in 0..=1.
    pub fn entries(text: &str) -> Result<impl Iterator<Item = Result<Entry<'_>, ReportError>>, ReportError> {
        let entries = text.strip_prefix("TEXT ").ok_or(ReportError::Form)?;
        let entries = entries.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(entries.filter_map(|entry| Self::entry(entry).transpose()))
    }

    fn entry(entry: &str) -> Result<Option<Entry<'_>>, ReportError> {
        let wrong = || ReportError::Entry(entry.chars().take(80).collect());
        let (name, value) = entry.split_once('=').ok_or_else(wrong)?;
        let class = match name.strip_prefix("named_metrics.") {
            None if name != "application_utilization" => return Ok(None),
            class => class,
        };
        let saturation = Saturation::parse(value).ok_or_else(wrong)?;
        Ok(Some(Entry { class, saturation }))
    }

    /// Reads the value of an `endpoint-load-metrics` header. Entries that are not ours are passed over.
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        let mut report = Self::default();
        for entry in Self::entries(text)? {
            let Entry { class, saturation } = entry?;
            let Some(name) = class else {
                report.cell = saturation;
                continue;
            };
            if report.classes.len() == Self::MAX_CLASSES {
                return Err(ReportError::TooMany);
            }
            let class = ClassName::parse(name).map_err(|_| ReportError::Entry(name.to_owned()))?;
            report.classes.push(ClassSaturation { class, saturation });
        }
        Ok(report)
    }
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TEXT application_utilization={}", self.cell)?;
        self.classes.iter().try_for_each(|c| write!(f, ", named_metrics.{}={}", c.class, c.saturation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_as_it_was_written() {
        let class = |name, part| ClassSaturation {
            class: ClassName::parse(name).unwrap(),
            saturation: Saturation::ratio(part, 8),
        };
        let report =
            Report { cell: Saturation::ratio(1, 4), classes: vec![class("checkout", 8), class("search", 1)] };
        assert_eq!(
            report.to_string(),
            "TEXT application_utilization=0.250, named_metrics.checkout=1.000, named_metrics.search=0.125"
        );
        assert_eq!(Report::parse(&report.to_string()), Ok(report));
    }

    #[test]
    fn a_strange_report_is_refused_and_a_strange_entry_passed_over() {
        assert_eq!(Report::parse("JSON {}"), Err(ReportError::Form));
        assert!(Report::parse("TEXT application_utilization=1.5").is_err());
        assert!(Report::parse("TEXT application_utilization=NaN").is_err());
        assert!(Report::parse("TEXT nonsense").is_err());
        assert_eq!(Report::parse("TEXT cpu_utilization=7").unwrap(), Report::default());
        let many = "named_metrics.a=0,".repeat(65);
        assert_eq!(Report::parse(&format!("TEXT {many}")), Err(ReportError::TooMany));
    }

    #[test]
    fn a_whole_of_nothing_is_full() {
        assert_eq!(Saturation::ratio(0, 0), Saturation::FULL);
        assert_eq!(Saturation::ratio(9, 3), Saturation::FULL);
    }
}
