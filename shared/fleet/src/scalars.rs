//! What every kind of scalar in the file is called when it is missing, and the kinds that the product's words lack:
//! shares and durations.

use std::str::FromStr;
use std::time::Duration;

use cofferdam_model::{
    CellId, CellState, ClassName, DependencyName, FleetName, OnStoreFailure, PlanName, Rate, Weight, ZoneId,
};

/// A value that is written as one scalar.
pub(crate) trait Scalar: Sized {
    /// What a reader of the file should have written, with an example.
    const WANTED: &'static str;
    /// Reads exactly this text, or says what is wrong with it.
    fn read(text: &str) -> Result<Self, String>;
}

/// Ties a type to its parser and to the words for what is expected.
macro_rules! scalar {
    ($($type:ty, $parse:path, $wanted:literal;)*) => {
        $(impl Scalar for $type {
            const WANTED: &'static str = $wanted;

            fn read(text: &str) -> Result<Self, String> {
                $parse(text).map_err(|error| error.to_string())
            }
        })*
    };
}
pub(crate) use scalar;

scalar! {
    CellId, CellId::parse, "a cell's name";
    CellState, CellState::from_str, "active, draining, dedicated, quarantine or disabled";
    ClassName, ClassName::parse, "a class's name";
    FleetName, FleetName::parse, "the fleet's name";
    OnStoreFailure, OnStoreFailure::from_str, "local, open or closed";
    PlanName, PlanName::parse, "a plan's name";
    DependencyName, DependencyName::parse, "a dependency's name";
    Rate, Rate::from_str, "a rate such as 20/s";
    Share, Share::from_str, "a share such as 0.25";
    Weight, Weight::from_str, "a weight such as 1 or 0.5";
    ZoneId, ZoneId::parse, "a zone's name";
    Duration, parse_duration, "a duration such as 250ms";
}

/// A ratio in 0..=1, kept in millionths, so that nothing decides by a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

/// Why text is not a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a share between 0 and 1 such as 0.25")]
pub struct ShareError(String);

impl Share {
    const WHOLE: u32 = 1_000_000;

    /// A share out of millionths, capped at the whole.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(if millionths > Self::WHOLE { Self::WHOLE } else { millionths })
    }

    /// The share of `whole`, rounded down.
    pub fn of(self, whole: u32) -> u32 {
        (u64::from(whole) * u64::from(self.0) / u64::from(Self::WHOLE)) as u32
    }

    /// The share as a float, for random numbers and for display.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let wrong = || ShareError(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
            return Err(wrong());
        }
        let millionths: u32 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
        let whole =
            whole.parse::<u32>().ok().and_then(|whole| whole.checked_mul(Self::WHOLE)).ok_or_else(wrong)?;
        let sum = whole.checked_add(millionths).filter(|sum| *sum <= Self::WHOLE);
        sum.map(Self).ok_or_else(wrong)
    }
}

/// Why text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 250ms, 15s or 5min")]
pub(crate) struct DurationError(String);

/// A whole number and a unit: `us`, `ms`, `s`, `min`, `m` or `h`. A bare number is refused, since its unit is a guess.
fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let unit_us: u64 = match unit.trim_start() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" | "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit_us).map(Duration::from_micros).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact_and_rounds_down() {
        assert_eq!("0.25".parse::<Share>().unwrap().of(40), 10);
        assert_eq!("0.1".parse::<Share>().unwrap().of(10), 1);
        assert_eq!("0.333333".parse::<Share>().unwrap().of(3), 0);
        assert_eq!("1".parse::<Share>().unwrap().of(u32::MAX), u32::MAX);
        for bad in ["", "x", "-0.1", "1.1", "2", ".5", "1.", "1e-1", "0.1234567", "99999999999"] {
            assert_eq!(bad.parse::<Share>(), Err(ShareError(bad.to_owned())));
        }
    }

    #[test]
    fn a_duration_needs_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5 min"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for bad in ["", "s", "15", "-1s", "1.5s", "1d", "99999999999999999999s", "9999999999999999h"] {
            assert_eq!(parse_duration(bad), Err(DurationError(bad.to_owned())));
        }
    }
}
