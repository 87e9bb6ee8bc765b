//! Rates and counts in whole numbers: N tokens per P microseconds, so that no limit is ever rounded.

use std::fmt;
use std::str::FromStr;

/// `tokens` per `period_us` microseconds, in lowest terms. Both are at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    tokens: u64,
    period_us: u64,
}

/// A whole count as people write it: `100`, `20k`, `10M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

/// Why text is not a rate or a count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a whole number with an optional `k` or `M`.
    #[error("{0:?} is not a count such as 100, 20k or 10M")]
    Count(String),
    /// No `/`, or an unknown unit behind it.
    #[error("{0:?} is not a rate such as 20/s, 7/min, 2k/s or 10/100ms")]
    Rate(String),
    /// No tokens, no time, or more than 10^9 tokens or one day.
    #[error("rate {0:?} is out of range: 1 to 10^9 per at most a day")]
    Range(String),
}

const MAX_TOKENS: u64 = 1_000_000_000;
const MAX_PERIOD_US: u64 = 86_400_000_000;

impl Rate {
    /// `tokens` per `period_us` microseconds, reduced; `None` outside 1..=10^9 tokens and 1 us..=1 day.
    pub fn new(tokens: u64, period_us: u64) -> Option<Self> {
        if tokens == 0 || period_us == 0 || tokens > MAX_TOKENS || period_us > MAX_PERIOD_US {
            return None;
        }
        let divisor = gcd(tokens, period_us);
        Some(Self { tokens: tokens / divisor, period_us: period_us / divisor })
    }

    /// `tokens` per second.
    pub fn per_second(tokens: u64) -> Option<Self> {
        Self::new(tokens, 1_000_000)
    }

    /// N of "N tokens per P microseconds", in lowest terms.
    pub fn tokens(self) -> u64 {
        self.tokens
    }

    /// P of "N tokens per P microseconds", in lowest terms.
    pub fn period_us(self) -> u64 {
        self.period_us
    }

    /// Whole seconds, rounded up, in which `burst` tokens refill: `w` of a RateLimit-Policy.
    pub fn window_s(self, burst: u64) -> u64 {
        let us = u128::from(burst) * u128::from(self.period_us);
        us.div_ceil(u128::from(self.tokens) * 1_000_000).max(1) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FromStr for Count {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'k') => (&text[..text.len() - 1], 1_000),
            Some(b'M') => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let number = if plain { digits.parse::<u64>().ok() } else { None };
        number.and_then(|n| n.checked_mul(unit)).map(Self).ok_or_else(|| RateError::Count(text.to_owned()))
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let not_a_rate = || RateError::Rate(text.to_owned());
        let (count, period) = text.split_once('/').ok_or_else(not_a_rate)?;
        let Count(tokens) = count.trim_end().parse().map_err(|_| not_a_rate())?;
        let period = period.trim_start();
        let split = period.find(|c: char| !c.is_ascii_digit()).ok_or_else(not_a_rate)?;
        let (times, unit) = period.split_at(split);
        let unit_us: u64 = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "min" | "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => MAX_PERIOD_US,
            _ => return Err(not_a_rate()),
        };
        let times = if times.is_empty() { 1 } else { times.parse().map_err(|_| not_a_rate())? };
        let period_us = unit_us.checked_mul(times).ok_or_else(|| RateError::Range(text.to_owned()))?;
        Self::new(tokens, period_us).ok_or_else(|| RateError::Range(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit_us, unit) in
            [(1_000_000, "s"), (60_000_000, "min"), (3_600_000_000, "h"), (86_400_000_000, "d")]
        {
            let tokens = u128::from(self.tokens) * unit_us;
            if tokens % u128::from(self.period_us) == 0 {
                return write!(f, "{}/{unit}", tokens / u128::from(self.period_us));
            }
        }
        write!(f, "{}/{}us", self.tokens, self.period_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!("20/s".parse(), Ok(Rate { tokens: 1, period_us: 50_000 }));
        assert_eq!("2k/s".parse(), Ok(Rate { tokens: 1, period_us: 500 }));
        assert_eq!("7/min".parse(), Ok(Rate { tokens: 7, period_us: 60_000_000 }));
        assert_eq!("10/100ms".parse(), Ok(Rate { tokens: 1, period_us: 10_000 }));
        for bad in ["", "20", "/s", "20/", "20/x", "-1/s", "1.5/s", "20 / fortnight", "x/s"] {
            assert_eq!(bad.parse::<Rate>(), Err(RateError::Rate(bad.to_owned())));
        }
        for bad in ["0/s", "20/0s", "2000M/s", "1/2d"] {
            assert_eq!(bad.parse::<Rate>(), Err(RateError::Range(bad.to_owned())));
        }
    }

    #[test]
    fn counts_take_k_and_m() {
        assert_eq!("10M".parse(), Ok(Count(10_000_000)));
        assert_eq!("20k".parse(), Ok(Count(20_000)));
        for bad in ["", "k", "-1", "+1", "1.5", "1K", "18446744073709551615k"] {
            assert!(bad.parse::<Count>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_window_is_rounded_up() {
        assert_eq!("20/s".parse::<Rate>().unwrap().window_s(100), 5);
        assert_eq!("3/s".parse::<Rate>().unwrap().window_s(10), 4);
        assert_eq!("1k/s".parse::<Rate>().unwrap().window_s(1), 1);
    }

    proptest! {
        #[test]
        fn a_printed_rate_reads_back_as_itself(tokens in 1..=MAX_TOKENS, period in 1..=MAX_PERIOD_US) {
            let rate = Rate::new(tokens, period).unwrap();
            if rate.to_string().split('/').next().unwrap().parse::<u64>().unwrap() <= MAX_TOKENS {
                prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
            }
        }
    }
}
