//! A point in time as a file writes it, by RFC 3339. It knows no clock.

use std::time::{Duration, SystemTime};

use crate::scalars::Scalar;

/// A point in time, to the second; a fraction of one is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) SystemTime);

impl Scalar for Time {
    const WANTED: &'static str = "a time such as 2027-01-31T18:00:00Z";

    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not {}", Self::WANTED);
        let seconds = seconds(text).ok_or_else(wrong)?;
        Ok(Self(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
    }
}

/// Seconds since 1970 of `2027-01-31T18:00:00Z`, or with `+02:00` in the place of the `Z`; `None` before 1970.
fn seconds(text: &str) -> Option<u64> {
    let shape = |at: usize, wanted: &[u8]| text.as_bytes().get(at).is_some_and(|byte| wanted.contains(byte));
    let separated =
        shape(4, b"-") && shape(7, b"-") && shape(10, b"Tt ") && shape(13, b":") && shape(16, b":");
    if !separated {
        return None;
    }
    let year = number(text, 0, 4, 1970..=9999)?;
    let month = number(text, 5, 2, 1..=12)?;
    let day = number(text, 8, 2, 1..=days_in(year, month))?;
    let (hour, minute) = (number(text, 11, 2, 0..=23)?, number(text, 14, 2, 0..=59)?);
    // A leap second is the first of the next minute.
    let second = number(text, 17, 2, 0..=60)?;
    let local = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let rest = text.get(19..)?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            (zone.len() < fraction.len()).then_some(zone)?
        }
        None => rest,
    };
    u64::try_from(local - offset_s(zone)?).ok()
}

/// How far local time is ahead of UTC, in seconds.
fn offset_s(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes() {
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    Some(sign * (number(zone, 1, 2, 0..=23)? * 3600 + number(zone, 4, 2, 0..=59)? * 60))
}

/// The `len` digits from `at` on, where they are within bounds.
fn number(text: &str, at: usize, len: usize, bounds: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let digits = text.get(at..at + len)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| plain && bounds.contains(number))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    // 477 leap days were before 1970.
    let years = (year - 1970) * 365 + leap_days - 477;
    years + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-03-01T00:00:00Z", Some(951_868_800)),
            ("2027-01-31T18:00:00Z", Some(1_801_418_400)),
            ("2027-01-31T20:00:00+02:00", Some(1_801_418_400)),
            ("2027-01-31t13:30:00.25-04:30", Some(1_801_418_400)),
            ("2028-02-29 23:59:60Z", Some(1_835_481_600)),
            ("2027-02-29T00:00:00Z", None),
            ("2100-02-29T00:00:00Z", None),
            ("1970-01-01T00:00:00+00:01", None),
            ("2027-01-31T18:00:00", None),
            ("2027-01-31T18:00:00.Z", None),
            ("2027-01-31T24:00:00Z", None),
            ("2027-1-31T18:00:00Z", None),
            ("2027-01-31T18:00:00+2:00", None),
            ("+027-01-31T18:00:00Z", None),
            ("2027-01-31", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn every_day_is_one_after_the_last() {
        let mut expected = 0;
        for year in 1970..2405 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    assert_eq!(days_since_1970(year, month, day), expected);
                    expected += 1;
                }
            }
        }
    }
}
