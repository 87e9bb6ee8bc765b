//! How many places a compartment needs, in whole numbers. It knows nothing of compartments that exist.

use std::time::Duration;

use cofferdam_model::Rate;

/// Why a size cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// A buffer that takes away from what is needed.
    #[error("buffer of {0} thousandths is below 1000")]
    Buffer(u32),
    /// More places than can be counted.
    #[error("rate {rate} held for {p99:?} needs more places than can be counted")]
    Range {
        /// The peak rate.
        rate: Rate,
        /// The high percentile of the hold time.
        p99: Duration,
    },
}

/// Places for `rate` arrivals at the peak that each hold one for up to `p99`: ceil(rate x p99 x buffer), at least 1.
/// This is Little's law with the high percentile in the place of the mean, and headroom. `buffer_thousandths` is
/// 1300 for the usual 1.3. Hold times count in whole microseconds, rounded up.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::size;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// assert_eq!(size("10/s".parse()?, Duration::from_secs(2), 1300)?, 26);
/// # Ok(())
/// # }
/// ```
pub fn size(rate: Rate, p99: Duration, buffer_thousandths: u32) -> Result<u64, SizeError> {
    if buffer_thousandths < 1000 {
        return Err(SizeError::Buffer(buffer_thousandths));
    }
    let p99_us = p99.as_nanos().div_ceil(1000);
    u128::from(rate.tokens())
        .checked_mul(p99_us)
        .and_then(|places| places.checked_mul(u128::from(buffer_thousandths)))
        .map(|places| places.div_ceil(u128::from(rate.period_us()) * 1000))
        .and_then(|places| u64::try_from(places.max(1)).ok())
        .ok_or(SizeError::Range { rate, p99 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(rate: &str, p99: Duration, buffer: u32) -> u64 {
        size(rate.parse().unwrap(), p99, buffer).unwrap()
    }

    #[test]
    fn sizes_are_peak_rate_by_high_percentile_and_headroom() {
        // P5, P37
        assert_eq!(places("10/s", Duration::from_secs(2), 1300), 26);
        assert_eq!(places("100/s", Duration::from_millis(500), 1300), 65);
        assert_eq!(places("1000/s", Duration::from_millis(10), 1300), 13);
    }

    #[test]
    fn without_headroom_it_is_littles_law() {
        // P1
        assert_eq!(places("10/s", Duration::from_millis(100), 1000), 1);
        assert_eq!(places("10/s", Duration::from_secs(30), 1000), 300);
    }

    #[test]
    fn a_part_of_a_place_is_a_place() {
        assert_eq!(places("10/s", Duration::from_nanos(100_000_001), 1000), 2);
        assert_eq!(places("1/d", Duration::ZERO, 1000), 1);
    }

    #[test]
    fn a_size_out_of_range_is_an_error() {
        let rate: Rate = "1000M/us".parse().unwrap();
        assert_eq!(size(rate, Duration::from_secs(1), 999), Err(SizeError::Buffer(999)));
        let p99 = Duration::MAX;
        assert_eq!(size(rate, p99, u32::MAX), Err(SizeError::Range { rate, p99 }));
    }
}
