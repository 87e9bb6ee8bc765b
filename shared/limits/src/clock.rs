//! The time in whole microseconds, from a clock that a test can hold in its hand. It knows no calendar.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, which quotas count their windows by: the process's monotonic clock, or a test's.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Monotonic { start: Instant, start_us: u64 },
    Suspending { start_us: u64 },
    Manual(ManualClock),
}

/// A clock that stands still until it is told to move, in either direction.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl Clock {
    /// The real clock: the time of day as it is now, counted on from here. It never goes back, and a time of day that is
    /// set anew changes nothing about it.
    pub fn monotonic() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_us = u64::try_from(since_1970.as_micros()).unwrap_or(0);
        Self(Source::Monotonic { start: Instant::now(), start_us })
    }

    /// The same where time goes on while the machine sleeps: what was borrowed until some time is not to be had after it.
    pub fn suspending() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_us = u64::try_from(since_1970.as_micros()).unwrap_or(0);
        Self(Source::Suspending { start_us: now_us.saturating_sub(boot_us()) })
    }

    /// Microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        match &self.0 {
            Source::Suspending { start_us } => start_us + boot_us(),
            Source::Monotonic { start, start_us } => {
                let elapsed = start.elapsed();
                start_us + elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros())
            }
            Source::Manual(clock) => clock.now_us(),
        }
    }
}

/// Microseconds since the machine was started, those in which it slept included.
fn boot_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither is ever below zero.
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }
}

impl ManualClock {
    /// A clock that stands at `now_us`.
    pub fn at(now_us: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now_us)))
    }

    /// Where the clock stands.
    pub fn now_us(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Moves the clock to `now_us`, which may lie in its past.
    pub fn set_us(&self, now_us: u64) {
        self.0.store(now_us, Ordering::Release);
    }

    /// Moves the clock forward; less than a microsecond is dropped.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as u64, Ordering::AcqRel);
    }
}
