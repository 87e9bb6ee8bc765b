//! A cell's weight: its share of homes beside the others'. Kept in thousandths, so that nothing decides by a float.

use std::fmt;
use std::str::FromStr;

/// A weight between 0.001 and 1000, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

/// Why text is not a weight.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// Not a plain decimal number with at most three places.
    #[error("{0:?} is not a weight such as 1, 2 or 0.5")]
    Syntax(String),
    /// Zero, or above 1000.
    #[error("weight {0} is outside 0.001 to 1000")]
    Range(String),
}

impl Default for Weight {
    fn default() -> Self {
        Self(1000)
    }
}

impl Weight {
    /// The weight in thousandths, 1 to 1,000,000.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// A weight out of thousandths; `None` outside 1..=1,000,000.
    pub fn from_thousandths(thousandths: u32) -> Option<Self> {
        (1..=1_000_000).contains(&thousandths).then_some(Self(thousandths))
    }
}

impl FromStr for Weight {
    type Err = WeightError;

    fn from_str(text: &str) -> Result<Self, WeightError> {
        let syntax = || WeightError::Syntax(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || fraction.len() > 3 {
            return Err(syntax());
        }
        let range = || WeightError::Range(text.to_owned());
        let thousands = whole.parse::<u32>().ok().and_then(|w| w.checked_mul(1000)).ok_or_else(range)?;
        let rest: u32 = format!("{fraction:0<3}").parse().map_err(|_| syntax())?;
        thousands.checked_add(rest).and_then(Self::from_thousandths).ok_or_else(range)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_plain_decimal_with_three_places() {
        for (text, thousandths) in [("1", 1000), ("2", 2000), ("0.5", 500), ("0.001", 1), ("1000", 1_000_000)]
        {
            let weight: Weight = text.parse().unwrap();
            assert_eq!(weight.thousandths(), thousandths);
            assert_eq!(weight.to_string(), text);
        }
        for bad in ["", "x", "-1", "1e3", "0.0001", "1.", ".5"] {
            assert_eq!(bad.parse::<Weight>(), Err(WeightError::Syntax(bad.to_owned())));
        }
        for bad in ["0", "0.000", "1000.001", "99999999999"] {
            assert_eq!(bad.parse::<Weight>(), Err(WeightError::Range(bad.to_owned())));
        }
    }
}
