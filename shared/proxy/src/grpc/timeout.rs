//! `grpc-timeout`: at most eight digits and a unit.

use std::fmt;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// How long the caller waits for the whole call.
pub const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The most that eight digits say.
const MOST: u128 = 99_999_999;

/// Why a field is no timeout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeoutError {
    /// Not one to eight digits and one of `H M S m u n`.
    #[error("grpc-timeout {0:?} is not one to eight digits and a unit of H, M, S, m, u, n")]
    Syntax(String),
    /// There is more than one.
    #[error("grpc-timeout is there more than once")]
    Twice,
}

/// The timeout that a head names, if it names one.
pub(super) fn read(fields: &HeaderMap) -> Result<Option<Duration>, TimeoutError> {
    let mut values = fields.get_all(TIMEOUT).iter().map(HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match parse(value) {
            Some(timeout) => Ok(Some(timeout)),
            None => Err(TimeoutError::Syntax(String::from_utf8_lossy(value).into_owned())),
        },
        (Some(_), Some(_)) => Err(TimeoutError::Twice),
    }
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(n * 3600),
        b'M' => Duration::from_secs(n * 60),
        b'S' => Duration::from_secs(n),
        b'm' => Duration::from_millis(n),
        b'u' => Duration::from_micros(n),
        b'n' => Duration::from_nanos(n),
        _ => return None,
    })
}

/// A time as the field says it: in the smallest unit of those from microseconds on that eight digits are enough for,
/// rounded down.
pub(super) struct Written(pub(super) Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = u128::from(self.0.as_secs());
        let units = [
            (self.0.as_micros(), 'u'),
            (self.0.as_millis(), 'm'),
            (seconds, 'S'),
            (seconds / 60, 'M'),
            (seconds / 3600, 'H'),
        ];
        let (n, unit) = units.into_iter().find(|(n, _)| *n <= MOST).unwrap_or((MOST, 'H'));
        write!(f, "{n}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("40m", Duration::from_millis(40)),
            ("5u", Duration::from_micros(5)),
            ("6n", Duration::from_nanos(6)),
            ("0S", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "",
            "S",
            "1",
            "1s",
            "1h",
            "123456789S",
            "-1S",
            "+1S",
            " 1S",
            "1 S",
            "1S ",
            "1.5S",
            "1SS",
            "1\u{e4}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn two_timeouts_are_none() {
        let mut fields = HeaderMap::new();
        assert_eq!(read(&fields), Ok(None));
        fields.append(TIMEOUT, HeaderValue::from_static("1S"));
        assert_eq!(read(&fields), Ok(Some(Duration::from_secs(1))));
        fields.append(TIMEOUT, HeaderValue::from_static("1S"));
        assert_eq!(read(&fields), Err(TimeoutError::Twice));
    }

    #[test]
    fn what_is_written_reads_back_and_is_never_longer() {
        for (time, text) in [
            (Duration::ZERO, "0u"),
            (Duration::from_nanos(1999), "1u"),
            (Duration::from_millis(1500), "1500000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_000), "1666666M"),
            (Duration::MAX, "99999999H"),
        ] {
            let written = Written(time).to_string();
            assert_eq!(written, text);
            assert!(parse(written.as_bytes()).unwrap() <= time);
        }
    }
}
